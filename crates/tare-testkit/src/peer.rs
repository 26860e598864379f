//! Servers on the loopback, whose threads end with the test's process or their connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A listener at a free port of the loopback, and where it is.
pub fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    (listener, address)
}

/// A port of the loopback at which nobody listens.
pub fn free_port() -> u16 {
    listen().1.port()
}

/// Serves on a free port of the loopback: calls `talk` with each connection and its number, from 0, in a new thread.
pub fn each_connection(talk: impl Fn(usize, TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let talk = talk.clone();
            std::thread::spawn(move || talk(number, stream));
        }
    });
    address
}

/// Serves on a free port of the loopback: answers the first piece of each connection with `text` and closes it.
pub fn answering_once(text: &'static str) -> SocketAddr {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        for mut stream in listener.incoming().flatten() {
            if let Ok(1..) = stream.read(&mut piece) {
                // Whoever has closed the connection wants no answer.
                let _ = stream.write_all(text.as_bytes());
            }
        }
    });
    address
}

/// Like [`each_connection`], for a server that passes each piece it receives to `answer` and sends what that
/// returns, if anything.
pub fn answering<T: AsRef<[u8]>>(answer: impl Fn(usize, &[u8]) -> Option<T> + Clone + Send + 'static) -> SocketAddr {
    each_connection(move |number, mut stream| {
        stream.set_nodelay(true).expect("it can be set");
        let mut piece = [0; 4096];
        while let Ok(received @ 1..) = stream.read(&mut piece) {
            let answer = answer(number, &piece[..received]);
            if answer.is_some_and(|text| stream.write_all(text.as_ref()).is_err()) {
                return;
            }
        }
    })
}
