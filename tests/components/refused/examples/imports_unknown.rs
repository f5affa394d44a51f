//! Imports an interface that no host of ours offers.

wit_bindgen::generate!({
    inline: "
        package test:vault@1.0.0;
        interface vault {
            open: func() -> string;
        }
        world burglar {
            import vault;
            export loot: func() -> string;
        }
    ",
});

struct Burglar;

impl Guest for Burglar {
    fn loot() -> String {
        test::vault::vault::open()
    }
}

export!(Burglar);
