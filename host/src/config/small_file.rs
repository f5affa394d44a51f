//! A small text file that an operator writes and the bridge reads again and again, at start and while it serves: what
//! is no such file is an error at once. Opening a pipe would wait for its writer, and a device may never end; neither may
//! hold up what serves. Knows nothing of what the text means.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The whole file. Links are followed; one that leads nowhere is not the same as no file.
///
/// Errors: as of the file system (`NotFound`: there is no such entry); not a file; over `most` bytes; not UTF-8.
pub fn read_small_file(path: &Path, most: u64) -> io::Result<String> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file: File = match OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_ok() => {
            return Err(io::Error::other("it is a link that leads nowhere"));
        }
        opened => opened?,
    };
    // Asked of the open file: what was checked is what is read.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = vec![];
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has over {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_small_file_is_said_at_once() {
        // given
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        symlink("/dev/zero", at("device")).unwrap();
        symlink("gone", at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("large"), "12345").unwrap();
        fs::write(at("binary"), [0xff]).unwrap();
        fs::write(at("file"), "1234").unwrap();
        symlink("file", at("good")).unwrap();
        // then
        let read = |name: &str| read_small_file(&at(name), 4).map_err(|why| why.to_string());
        for (name, says) in [
            ("pipe", "not a file"),
            ("device", "not a file"),
            ("directory", "not a file"),
            ("link", "leads nowhere"),
            ("large", "over 4 bytes"),
            ("binary", "not UTF-8"),
        ] {
            let said = read(name).unwrap_err();
            assert!(said.contains(says), "{name}: {said}");
        }
        assert_eq!(read("good").as_deref(), Ok("1234"));
        assert_eq!(read_small_file(&at("gone"), 4).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
