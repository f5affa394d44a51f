//! Imports a package of WASI that this host does not have.

wit_bindgen::generate!({
    inline: "
        package test:typed@0.1.0;
        world keeper {
            import wasi:keyvalue/store@0.2.0-draft2;
            export keep: func() -> bool;
        }
        package wasi:keyvalue@0.2.0-draft2 {
            interface store {
                open: func(name: string) -> bool;
            }
        }
    ",
    generate_all,
});

struct Keeper;

impl Guest for Keeper {
    fn keep() -> bool {
        wasi::keyvalue::store::open("notes")
    }
}

export!(Keeper);
