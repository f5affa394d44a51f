#[path = "build/catalogue.rs"]
mod catalogue;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    catalogue::pack();
}
