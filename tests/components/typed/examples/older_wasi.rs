//! Built against the first patch level of WASI 0.2.

wit_bindgen::generate!({
    inline: "
        package test:typed@0.1.0;
        world picker {
            import wasi:random/random@0.2.0;
            export pick: func() -> bool;
        }
        package wasi:random@0.2.0 {
            interface random {
                get-random-bytes: func(len: u64) -> list<u8>;
                get-random-u64: func() -> u64;
            }
        }
    ",
    generate_all,
});

struct Picker;

impl Guest for Picker {
    fn pick() -> bool {
        wasi::random::random::get_random_u64() % 2 == 0
    }
}

export!(Picker);
