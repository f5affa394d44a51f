//! A good component that exports nothing.

wit_bindgen::generate!({
    inline: "
        package test:silent@1.0.0;
        world silent {}
    ",
});
