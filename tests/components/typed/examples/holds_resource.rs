//! A function that takes a resource, which has no JSON.

wit_bindgen::generate!({
    inline: "
        package test:typed@0.1.0;
        interface files {
            resource file { size: func() -> u64; }
            remove: func(the-file: borrow<file>);
        }
        world holder {
            export files;
        }
    ",
});

use exports::test::typed::files::{FileBorrow, Guest, GuestFile};

struct Holder;
struct File;

impl Guest for Holder {
    type File = File;
    fn remove(_: FileBorrow<'_>) {}
}

impl GuestFile for File {
    fn size(&self) -> u64 {
        0
    }
}

export!(Holder);
