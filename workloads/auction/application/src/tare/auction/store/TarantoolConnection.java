package tare.auction.store;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import tare.auction.Settings;

/**
 * One connection to Tarantool, in its binary protocol: a request, its answer, one after the other. What an answer
 * holds is the list of what the stored function returned.
 */
final class TarantoolConnection implements AutoCloseable {
    private static final int CODE = 0x00;
    private static final int SYNC = 0x01;
    private static final int TUPLE = 0x21;
    private static final int FUNCTION = 0x22;
    private static final int USER = 0x23;
    private static final int DATA = 0x30;
    private static final int ERROR = 0x31;
    private static final int AUTH = 0x07;
    private static final int CALL = 0x0a;
    private static final int GREETING = 128;
    private static final int REPLY_MAX = 64 << 20;

    private final Socket socket;
    private final OutputStream out;
    private final DataInputStream in;
    private long sync;

    TarantoolConnection(Settings.Address address, String user, String password, int timeoutMillis) throws IOException {
        socket = new Socket();
        try {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(timeoutMillis);
            socket.connect(new InetSocketAddress(address.host(), address.port()), timeoutMillis);
            out = socket.getOutputStream();
            in = new DataInputStream(new BufferedInputStream(socket.getInputStream(), 1 << 16));
            byte[] greeting = in.readNBytes(GREETING);
            if (greeting.length < GREETING) {
                throw new IOException("no Tarantool answers at " + address);
            }
            String salt = new String(greeting, 64, 44, StandardCharsets.US_ASCII).strip();
            byte[] proof = proof(password, Base64.getDecoder().decode(salt));
            request(AUTH, Map.of(USER, user, TUPLE, List.of("chap-sha1", proof)), false);
        } catch (IOException | RuntimeException failure) {
            socket.close();
            throw failure;
        }
    }

    /** Proves that the password is known without sending it: sha1(password) xor sha1(salt, sha1(sha1(password))). */
    static byte[] proof(String password, byte[] salt) {
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-1");
            byte[] first = sha.digest(password.getBytes(StandardCharsets.UTF_8));
            byte[] second = sha.digest(first);
            sha.update(salt, 0, 20);
            byte[] third = sha.digest(second);
            for (int i = 0; i < third.length; i++) {
                third[i] ^= first[i];
            }
            return third;
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Calls a stored function; what it returned, with {@code raw} all texts as bytes. An error leaves it usable. */
    List<?> call(String function, List<?> arguments, boolean raw) throws IOException {
        return request(CALL, Map.of(FUNCTION, function, TUPLE, arguments), raw);
    }

    private List<?> request(int type, Map<Integer, ?> body, boolean raw) throws IOException {
        ByteArrayOutputStream packet = new ByteArrayOutputStream(256);
        // Room for the length, which is known at the end: a 32-bit number in five bytes.
        packet.writeBytes(new byte[5]);
        MessagePack.write(packet, Map.of(CODE, type, SYNC, ++sync));
        MessagePack.write(packet, body);
        byte[] bytes = packet.toByteArray();
        ByteBuffer.wrap(bytes).put((byte) 0xce).putInt(bytes.length - 5);
        out.write(bytes);
        if ((in.readByte() & 0xff) != 0xce) {
            throw new IOException("an answer of Tarantool does not begin with its length");
        }
        int length = in.readInt();
        if (length < 0 || length > REPLY_MAX) {
            throw new IOException("an answer of Tarantool claims " + length + " bytes");
        }
        ByteBuffer reply = ByteBuffer.wrap(in.readNBytes(length));
        Map<?, ?> header = (Map<?, ?>) MessagePack.read(reply, false);
        Map<?, ?> answer = reply.hasRemaining() ? (Map<?, ?>) MessagePack.read(reply, raw) : Map.of();
        if (!Long.valueOf(sync).equals(header.get((long) SYNC))) {
            throw new IOException("an answer of Tarantool belongs to another request");
        }
        if ((long) header.get((long) CODE) != 0) {
            Object reason = answer.get((long) ERROR);
            throw new Refused(reason instanceof byte[] text ? new String(text, StandardCharsets.UTF_8) : "" + reason);
        }
        return answer.get((long) DATA) instanceof List<?> data ? data : List.of();
    }

    /** Tarantool understood the request and did not carry it out. */
    static final class Refused extends IOException {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super("Tarantool: " + reason);
        }
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException ignored) {
            // It is gone either way.
        }
    }
}
