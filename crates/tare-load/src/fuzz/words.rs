//! Fragments of which input is made, and binary samples.

pub(super) const RESP: &[&str] = &[
    "+OK\r\n",
    "$",
    "-1",
    "5\r\n",
    "64\r\n",
    "\r\n",
    ":",
    "*2\r\n",
    "-ERR x\r\n",
    "$0\r\n\r\n",
    "99999999999999999999",
    "_\r\n",
    "%1\r\n",
    ">2\r\n",
    "(1\r\n",
    "$5\r\nhello\r\n",
    "*-1\r\n",
    "*1\r\n",
    "+",
    "\n",
    "\r",
    "*2147483647\r\n",
    "$2147483647\r\n",
];
pub(super) const HTTP: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 404 No\r\n",
    "HTTP/1.1 304 Not\r\n",
    "HTTP/1.1 100 Go\r\n\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 2147483647\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Set-Cookie: a=b; Max-Age=0\r\n",
    "Location: /x\r\n",
    "Location: //[::1]/\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "7fffffff\r\n",
    "{\"a\": 1}",
    "HTTP/1.1 302 Go\r\n",
    ";x=y\r\n",
    "\u{1f}\u{8b}",
    "Expires=Thu, 01 Jan 1970 00:00:00 GMT; ",
];
pub(super) const POSTGRES: &[&str] = &[
    "R\0\0\0\u{8}\0\0\0\0",
    "R\0\0\0\u{8}\0\0\0\u{3}",
    "Z\0\0\0\u{5}I",
    "Z\0\0\0\u{5}T",
    "1\0\0\0\u{4}",
    "2\0\0\0\u{4}",
    "C\0\0\0\u{d}SELECT 1\0",
    "D\0\0\0\u{b}\0\u{1}\0\0\0\u{1}7",
    "I\0\0\0\u{4}",
    "N\0\0\0\u{4}",
    "S\0\0\0\u{4}",
    "E\0\0\0\u{13}SERROR\0C40001\0\0",
    "D\u{7f}\0\0\0",
    "E\0\u{f}\0\0",
    "A\0\0\0\u{4}",
    "C\0\0\0\u{d}UPDATE 9\0",
];
pub(super) const MYSQL: &[&str] = &[
    "\u{7}\0\0\u{2}\0\0\0\u{2}\0\0\0",
    "\u{7}\0\0\u{2}\0\u{1}\0\u{3}\0\0\0",
    "\u{5}\0\0\u{3}",
    "\u{1}\0\0\u{1}\u{1}",
    "\u{1}\0\0\u{1}\u{2}",
    "\u{2}\0\0\u{2}\u{1}\u{3}",
    "\u{2}\0\0\u{2}\u{1}\u{4}",
    "\u{1}\0\0\u{1}\u{7f}",
];
pub(super) const TOOL: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\n",
    "null",
    "1e308",
    "-1",
    "18446744073709551615",
    "0",
    "\"",
    ":",
    ",",
    "nan",
    "ms",
    "us",
    "s",
];
pub(super) const SCRIPT: &[&str] = &[
    "${a}",
    "${b.a}",
    "${a:06}",
    "$${",
    "${captured}",
    "\n",
    "a: ",
    "b: ",
    "{uniform: {from: 1, to: 9}}",
    "{csv: {file: x}}",
    "{zipf: {from: 1, to: 100, theta: 1}}",
    "{text: {length: 5}}",
    "{pattern: '#@'}",
    "{choice: [x, y]}",
    "{nurand: {",
    "{sequence: {from: -5, to: 5, step: 2, per: user}}",
    "}",
    "- ",
    "[",
    ":",
    "9007199254740993",
    "  ",
];
pub(super) const YAML: &[&str] = &[
    "redis: ",
    "http: ",
    "postgres: ",
    "mysql: ",
    "tcp: ",
    "exec: ",
    "null: ",
    "operations: ",
    "feeds: ",
    "requests: ",
    "script: ",
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "- ",
    "\n",
    "  ",
    "'",
    "\"",
    "${",
    "}",
    "|",
    "~",
    "#",
];

/// A MySQL server that lets in, prepares SELECT, UPDATE and SELECT, begins, returns a row of two columns, updates it
/// and commits.
pub(super) const MYSQL_TALK: &[u8] = b"\
    G\0\0\0\x0a5.0\0\x01\0\0\0aaaaaaaa\0\0\x82-\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0bbbbbbbbbbbb\0mysql_native\
    _password\0\x07\0\0\0\0\0\0\x02\0\0\0\x0c\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\x17\0\0\0\x03def\0\0\0\x01a\0\
    \x0c?\0\x01\0\0\0\x08\0\0\0\0\0\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\0\0\0\0\x05\0\0\0\
    \xfe\0\0\x02\0\x0c\0\0\0\0\x02\0\0\0\0\0\x02\0\0\0\0\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\
    \0\0\0\0\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\0\0\0\0\x05\0\0\0\xfe\0\0\x02\0\x0c\0\0\0\0\
    \x03\0\0\0\x01\0\0\0\0\0\0\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\0\0\0\0\x05\0\0\0\xfe\0\0\
    \x02\0\x07\0\0\0\0\0\0\x03\0\0\0\x01\0\0\0\x02\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\0\0\0\
    \0\x17\0\0\0\x03def\0\0\0\x01a\0\x0c?\0\x01\0\0\0\x08\0\0\0\0\0\x05\0\0\0\xfe\0\0\x03\0\x0a\0\0\0\0\x08\
    \x03\0\0\0\0\0\0\0\x05\0\0\0\xfe\0\0\x03\0\x07\0\0\0\0\x01\0\x03\0\0\0\x07\0\0\0\0\0\0\x02\0\0\0";
/// A server that asks for another authentication method, with which it then succeeds at once.
pub(super) const MYSQL_SWITCH: &[u8] = b"\
    G\0\0\0\x0a5.0\0\x01\0\0\0aaaaaaaa\0\0\x82-\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0bbbbbbbbbbbb\0mysql_native\
    _password\0,\0\0\0\xfecaching_sha2_password\0aaaaaaaabbbbbbbbbbbb\0\x02\0\0\0\x01\x03\x07\0\0\0\0\0\0\x02\
    \0\0\0";
/// A server asked for a counter twice, with the older packets that end rows and column descriptions, and then answering
/// that all is well. The first count is the largest number.
pub(super) const MYSQL_CONTROL: &[u8] = b"\
    \x01\0\0\x01\x02\x03\0\0\x02def\x03\0\0\x03def\x05\0\0\x04\xfe\0\0\x02\0 \0\0\x05\x0aCom_commit\x14\
    18446744073709551615\x05\0\0\x06\xfe\0\0\x02\0\x01\0\0\x01\x02\x03\0\0\x02def\x03\0\0\x03def\x05\0\0\x04\
    \xfe\0\0\x02\0\x0e\0\0\x05\x0aCom_commit\x0217\x05\0\0\x06\xfe\0\0\x02\0\x07\0\0\x01\0\0\0\x02\0\0\0";
