//! A good component of another world: it exports a greeting and no tools.

wit_bindgen::generate!({
    inline: "
        package test:greeter@1.0.0;
        world greeter {
            export greet: func() -> string;
        }
    ",
});

struct Greeter;

impl Guest for Greeter {
    fn greet() -> String {
        "hello".into()
    }
}

export!(Greeter);
