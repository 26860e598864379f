package tare.auction.data;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.SplittableRandom;

/**
 * Makes JPEG images of noise: real ones, which any decoder reads, of about a wanted size, that neither compress (what
 * is coded is random, so some four in a hundred at most) nor have a part in common with each other.
 *
 * <p>They are grey and baseline (ITU-T T.81), quantised by one. A block of 8 x 8 says that it is as bright as the one
 * before, then has as many random coefficients as the size asks for, each of 8 to 10 bits.
 */
final class NoiseJpeg {
    private static final int BLOCK = 8;
    private static final int COEFFICIENTS_MAX = 62;
    /** The code of a coefficient: two bits for how many bits it has, then those. */
    private static final int BITS_LEAST = 8;
    private static final int BITS_A_COEFFICIENT = 2 + 9;
    private static final int END_OF_BLOCK = 0b110;

    private final ByteArrayOutputStream out;
    private long bits;
    private int count;

    private NoiseJpeg(int bytes) {
        out = new ByteArrayOutputStream(bytes + bytes / 16);
    }

    /** An image of {@code side} x {@code side} pixels and about {@code bytes} bytes, all of it out of {@code random}. */
    static byte[] make(SplittableRandom random, int side, int bytes) {
        int blocks = ((side + BLOCK - 1) / BLOCK) * ((side + BLOCK - 1) / BLOCK);
        NoiseJpeg image = new NoiseJpeg(bytes);
        image.header(side);
        // The first coefficient of a block and its end take four bits.
        int wanted = Math.max(blocks, (int) (((long) bytes * 8 - 4L * blocks) / BITS_A_COEFFICIENT));
        for (int block = 0; block < blocks; block++) {
            int upTo = (int) ((long) wanted * (block + 1) / blocks);
            int from = (int) ((long) wanted * block / blocks);
            image.block(random, Math.min(COEFFICIENTS_MAX, upTo - from));
        }
        // Ones to the end of the last byte.
        image.put((1 << 7) - 1, 7);
        image.out.write(0xff);
        image.out.write(0xd9);
        return image.out.toByteArray();
    }

    private void block(SplittableRandom random, int coefficients) {
        put(0, 1);
        for (int i = 0; i < coefficients; i++) {
            int kind = random.nextInt(3);
            int size = BITS_LEAST + kind;
            put(kind << size | random.nextInt(1 << size), 2 + size);
        }
        put(END_OF_BLOCK, 3);
    }

    private void put(int value, int size) {
        bits = bits << size | value;
        count += size;
        while (count >= 8) {
            count -= 8;
            int octet = (int) (bits >>> count) & 0xff;
            out.write(octet);
            if (octet == 0xff) {
                // So that it is not taken for a marker.
                out.write(0);
            }
        }
    }

    private void header(int side) {
        out.writeBytes(new byte[] {(byte) 0xff, (byte) 0xd8});
        byte[] quantisation = new byte[65];
        java.util.Arrays.fill(quantisation, 1, 65, (byte) 1);
        segment(0xdb, quantisation);
        segment(0xc0, ByteBuffer.allocate(9).put((byte) 8).putShort((short) side).putShort((short) side)
                .put(new byte[] {1, 1, 0x11, 0}).array());
        // Brightness: one code of one bit, for "no difference".
        segment(0xc4, table(0x00, new int[] {1}, new int[] {0}));
        // Coefficients: codes of two bits for 8, 9 and 10 bits, one of three bits for the end of the block.
        segment(0xc4, table(0x10, new int[] {0, 3, 1}, new int[] {BITS_LEAST, BITS_LEAST + 1, BITS_LEAST + 2, 0}));
        segment(0xda, new byte[] {1, 1, 0, 0, 63, 0});
    }

    private static byte[] table(int kind, int[] lengths, int[] symbols) {
        ByteBuffer table = ByteBuffer.allocate(17 + symbols.length).put((byte) kind);
        for (int i = 0; i < 16; i++) {
            table.put((byte) (i < lengths.length ? lengths[i] : 0));
        }
        for (int symbol : symbols) {
            table.put((byte) symbol);
        }
        return table.array();
    }

    private void segment(int marker, byte[] content) {
        out.write(0xff);
        out.write(marker);
        out.write((content.length + 2) >>> 8);
        out.write((content.length + 2) & 0xff);
        out.writeBytes(content);
    }
}
