//! Minimal peers for `postgres` and `mysql`: how they let the load in, and a right answer.

use std::io::{Read, Write};
use std::net::TcpStream;

/// The load's script.
pub(crate) const SELECT: &str = "\
verify: {server: false}
operations: {work: {script: [{sql: SELECT a, expect: {rows: 1}, capture: {a: 1}}]}}";

/// `SELECT 7`, one row of one column.
pub(crate) const POSTGRES_RIGHT: &[u8] = b"2\0\0\0\x04D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
/// One column, its description, the end of descriptions, a row, the end of rows.
pub(crate) const MYSQL_RIGHT: &[u8] =
    b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0\
      \x05\0\0\x03\xfe\0\0\x02\0\x0a\0\0\x04\0\0\x07\0\0\0\0\0\0\0\x05\0\0\x05\xfe\0\0\x02\0";
const COLUMN: &[u8] = b"\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0";
const MYSQL_END: &[u8] = b"\x05\0\0\x03\xfe\0\0\x02\0";

/// Lets the load in, up to prepared statements.
pub(crate) fn admit_postgres(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    let _ = stream.read(&mut bytes);
    let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    let _ = stream.read(&mut bytes);
    // ROLLBACK and the load's only statement.
    let _ = stream.write_all(b"1\0\0\0\x041\0\0\0\x04Z\0\0\0\x05I");
}

/// Lets the load in, up to prepared statements.
pub(crate) fn admit_mysql(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    // Version 10, a salt, and support for 4.1, secure connections and plugins.
    let mut hello = b"\x0a5.0\0\x01\0\0\0aaaaaaaa\0\0\x82\x2d\x02\0\x08\0\x15".to_vec();
    hello.extend_from_slice(&[0; 10]);
    hello.extend_from_slice(b"bbbbbbbbbbbb\0mysql_native_password\0");
    let mut packet = vec![hello.len() as u8, 0, 0, 0];
    packet.append(&mut hello);
    let _ = stream.write_all(&packet);
    let _ = stream.read(&mut bytes);
    let _ = stream.write_all(b"\x07\0\0\x02\0\0\0\x02\0\0\0");
    let _ = stream.read(&mut bytes);
    // Prepared: statement 1, one column, no parameters; the column, the end of columns.
    let _ = stream.write_all(b"\x0c\0\0\x01\0\x01\0\0\0\x01\0\0\0\0\0\0");
    let _ = stream.write_all(COLUMN);
    let _ = stream.write_all(MYSQL_END);
}
