package tare.auction.store;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * MessagePack, the encoding of what Tarantool is told and answers: null, booleans, integers, doubles, texts, bytes,
 * lists, maps. Integers are read as {@link Long}, whatever they took on the wire.
 */
final class MessagePack {
    private MessagePack() {}

    /** Appends {@code value}. */
    static void write(ByteArrayOutputStream out, Object value) {
        if (value == null) {
            out.write(0xc0);
        } else if (value instanceof Boolean flag) {
            out.write(flag ? 0xc3 : 0xc2);
        } else if (value instanceof Double number) {
            out.write(0xcb);
            bigEndian(out, Double.doubleToRawLongBits(number), 8);
        } else if (value instanceof Number number) {
            integer(out, number.longValue());
        } else if (value instanceof String text) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            head(out, bytes.length, 0xa0, 32, 0xd9, 0xda, 0xdb);
            out.writeBytes(bytes);
        } else if (value instanceof byte[] bytes) {
            head(out, bytes.length, 0, 0, 0xc4, 0xc5, 0xc6);
            out.writeBytes(bytes);
        } else if (value instanceof List<?> list) {
            head(out, list.size(), 0x90, 16, -1, 0xdc, 0xdd);
            list.forEach(item -> write(out, item));
        } else if (value instanceof Map<?, ?> map) {
            head(out, map.size(), 0x80, 16, -1, 0xde, 0xdf);
            map.forEach((key, item) -> {
                write(out, key);
                write(out, item);
            });
        } else {
            throw new IllegalArgumentException("no MessagePack for " + value.getClass());
        }
    }

    /** Lengths below {@code small} stand in the first byte; -1 says that there is no form of one byte. */
    private static void head(ByteArrayOutputStream out, int length, int first, int small, int one, int two, int four) {
        if (length < small) {
            out.write(first | length);
        } else if (length < 1 << 8 && one >= 0) {
            out.write(one);
            bigEndian(out, length, 1);
        } else if (length < 1 << 16) {
            out.write(two);
            bigEndian(out, length, 2);
        } else {
            out.write(four);
            bigEndian(out, length, 4);
        }
    }

    private static void integer(ByteArrayOutputStream out, long value) {
        if (value >= 0 && value < 128) {
            out.write((int) value);
        } else if (value >= 0) {
            out.write(0xcf);
            bigEndian(out, value, 8);
        } else if (value >= -32) {
            out.write((int) value & 0xff);
        } else {
            out.write(0xd3);
            bigEndian(out, value, 8);
        }
    }

    private static void bigEndian(ByteArrayOutputStream out, long value, int bytes) {
        for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
            out.write((int) (value >>> shift) & 0xff);
        }
    }

    /**
     * Reads one value; what is cut off or unknown is an {@link IOException}. With {@code raw} texts are read as bytes:
     * Lua has one type for both, and so bytes that went through it come back as a text.
     */
    static Object read(ByteBuffer in, boolean raw) throws IOException {
        try {
            return value(in, raw);
        } catch (java.nio.BufferUnderflowException cut) {
            throw new IOException("a MessagePack value is cut off", cut);
        }
    }

    private static Object value(ByteBuffer in, boolean raw) throws IOException {
        int first = in.get() & 0xff;
        if (first < 0x80) {
            return (long) first;
        } else if (first < 0x90) {
            return map(in, first & 0x0f, raw);
        } else if (first < 0xa0) {
            return list(in, first & 0x0f, raw);
        } else if (first < 0xc0) {
            return text(in, first & 0x1f, raw);
        } else if (first >= 0xe0) {
            return (long) (byte) first;
        }
        return switch (first) {
            case 0xc0 -> null;
            case 0xc2 -> false;
            case 0xc3 -> true;
            case 0xc4 -> bytes(in, in.get() & 0xff);
            case 0xc5 -> bytes(in, in.getShort() & 0xffff);
            case 0xc6 -> bytes(in, length(in));
            case 0xca -> (double) in.getFloat();
            case 0xcb -> in.getDouble();
            case 0xcc -> (long) (in.get() & 0xff);
            case 0xcd -> (long) (in.getShort() & 0xffff);
            case 0xce -> in.getInt() & 0xffffffffL;
            case 0xcf, 0xd3 -> in.getLong();
            case 0xd0 -> (long) in.get();
            case 0xd1 -> (long) in.getShort();
            case 0xd2 -> (long) in.getInt();
            case 0xd9 -> text(in, in.get() & 0xff, raw);
            case 0xda -> text(in, in.getShort() & 0xffff, raw);
            case 0xdb -> text(in, length(in), raw);
            case 0xdc -> list(in, in.getShort() & 0xffff, raw);
            case 0xdd -> list(in, length(in), raw);
            case 0xde -> map(in, in.getShort() & 0xffff, raw);
            case 0xdf -> map(in, length(in), raw);
            default -> throw new IOException("no MessagePack that is known here begins with " + first);
        };
    }

    private static int length(ByteBuffer in) throws IOException {
        int length = in.getInt();
        if (length < 0 || length > in.remaining()) {
            throw new IOException("a MessagePack value is cut off");
        }
        return length;
    }

    private static byte[] bytes(ByteBuffer in, int length) {
        byte[] bytes = new byte[length];
        in.get(bytes);
        return bytes;
    }

    private static Object text(ByteBuffer in, int length, boolean raw) {
        byte[] bytes = bytes(in, length);
        return raw ? bytes : new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<Object> list(ByteBuffer in, int length, boolean raw) throws IOException {
        List<Object> items = new ArrayList<>(Math.min(length, 1024));
        for (int i = 0; i < length; i++) {
            items.add(value(in, raw));
        }
        return items;
    }

    private static Map<Object, Object> map(ByteBuffer in, int length, boolean raw) throws IOException {
        Map<Object, Object> items = new HashMap<>();
        for (int i = 0; i < length; i++) {
            items.put(value(in, raw), value(in, raw));
        }
        return items;
    }
}
