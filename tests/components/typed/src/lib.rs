//! Every type of WIT that can be in JSON, there and back, in functions that know nothing of this host.

wit_bindgen::generate!({
    inline: r#"
        package test:typed@0.1.0;

        interface shapes {
            record point { x: s32, y: s32, the-label: option<string> }
            enum colour { red, dark-green }
            flags rights { read, write-all }
            variant shape { empty, circle(f64), polygon(list<point>) }

            /// Adds two points.
            /// The label is the first one's.
            move-point: func(point: point, by: tuple<s32, s32>) -> point;
            bounds: func(a: u8, b: s8, c: u16, d: s16, e: u32, f: s32) -> tuple<u8, s8, u16, s16, u32, s32>;
            big: func(unsigned: u64, signed: s64) -> tuple<u64, s64>;
            divide: func(a: f64, b: f64) -> f64;
            third: func(a: f32) -> f32;
            letter-after: func(letter: char) -> char;
            not: func(it: bool) -> bool;
            reverse: func(bytes: list<u8>) -> list<u8>;
            same-colour: func(colour: colour) -> colour;
            same-rights: func(rights: rights) -> rights;
            area: func(shape: shape) -> result<f64, string>;
            same-shape: func(shape: shape) -> shape;
            maybe: func(word: option<string>) -> option<string>;
            nested: func(number: option<option<u8>>) -> option<option<u8>>;
            outcomes: func(outcomes: list<result<u8, string>>) -> list<result<u8, string>>;
            check: func(fails: bool) -> result;
            fails-with: func(shape: shape) -> result<_, shape>;
            first: func(words: list<string>) -> string;
            nothing: func();
            count: func(up-to: u32) -> list<u32>;
            crash: func();
            spin: func();
        }

        interface words {
            first: func(text: string) -> string;
        }

        world typed {
            export shapes;
            export words;
            export greet-URL: func(the-name: string) -> string;
        }
    "#,
});

use exports::test::typed::shapes::{Colour, Guest as Shapes, Point, Rights, Shape};
use exports::test::typed::words::Guest as Words;

struct Typed;

impl Guest for Typed {
    fn greet_url(the_name: String) -> String {
        format!("Hello, {the_name}!")
    }
}

impl Words for Typed {
    fn first(text: String) -> String {
        text.split(' ').next().unwrap_or_default().into()
    }
}

impl Shapes for Typed {
    fn move_point(point: Point, (x, y): (i32, i32)) -> Point {
        Point { x: point.x + x, y: point.y + y, ..point }
    }
    fn bounds(a: u8, b: i8, c: u16, d: i16, e: u32, f: i32) -> (u8, i8, u16, i16, u32, i32) {
        (a, b, c, d, e, f)
    }
    fn big(unsigned: u64, signed: i64) -> (u64, i64) {
        (unsigned, signed)
    }
    fn divide(a: f64, b: f64) -> f64 {
        a / b
    }
    fn third(a: f32) -> f32 {
        a
    }
    fn letter_after(letter: char) -> char {
        char::from_u32(letter as u32 + 1).unwrap_or(letter)
    }
    fn not(it: bool) -> bool {
        !it
    }
    fn reverse(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.reverse();
        bytes
    }
    fn same_colour(colour: Colour) -> Colour {
        colour
    }
    fn same_rights(rights: Rights) -> Rights {
        rights
    }
    fn area(shape: Shape) -> Result<f64, String> {
        match shape {
            Shape::Empty => Ok(0.0),
            Shape::Circle(radius) => Ok(3.0 * radius * radius),
            Shape::Polygon(_) => Err("polygons are too hard".into()),
        }
    }
    fn same_shape(shape: Shape) -> Shape {
        shape
    }
    fn maybe(word: Option<String>) -> Option<String> {
        word
    }
    fn nested(number: Option<Option<u8>>) -> Option<Option<u8>> {
        number
    }
    fn outcomes(outcomes: Vec<Result<u8, String>>) -> Vec<Result<u8, String>> {
        outcomes
    }
    fn check(fails: bool) -> Result<(), ()> {
        if fails { Err(()) } else { Ok(()) }
    }
    fn fails_with(shape: Shape) -> Result<(), Shape> {
        Err(shape)
    }
    fn first(words: Vec<String>) -> String {
        words.into_iter().next().unwrap_or_default()
    }
    fn nothing() {}
    fn count(up_to: u32) -> Vec<u32> {
        (0..up_to).collect()
    }
    fn crash() {
        panic!("as asked")
    }
    fn spin() {
        loop {
            std::hint::black_box(0);
        }
    }
}

export!(Typed);
