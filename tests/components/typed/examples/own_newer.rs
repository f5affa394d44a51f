//! Built against a version of our own package that this host does not have.

wit_bindgen::generate!({
    inline: "
        package test:typed@0.1.0;
        world writer {
            import cyberos:plugin/log@2.1.0;
            export write: func();
        }
        package cyberos:plugin@2.1.0 {
            interface log {
                line: func(text: string);
            }
        }
    ",
    generate_all,
});

struct Writer;

impl Guest for Writer {
    fn write() {
        cyberos::plugin::log::line("hello")
    }
}

export!(Writer);
