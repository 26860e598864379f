package tare.auction.store;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.LongStream;
import org.junit.Test;

public class MessagePackTest {
    private static byte[] written(Object value) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        MessagePack.write(out, value);
        return out.toByteArray();
    }

    private static Object again(Object value) throws IOException {
        return MessagePack.read(ByteBuffer.wrap(written(value)), false);
    }

    @Test
    public void whatIsWrittenIsReadAgain() throws IOException {
        for (long number : new long[] {0, 1, 127, 128, 255, 65_536, Long.MAX_VALUE, -1, -32, -33, Long.MIN_VALUE}) {
            assertEquals(number, again(number));
        }
        for (int length : new int[] {0, 1, 31, 32, 255, 256, 65_535, 65_536}) {
            assertEquals("x".repeat(length), again("x".repeat(length)));
            assertArrayEquals(new byte[length], (byte[]) again(new byte[length]));
            List<Long> list = LongStream.range(0, length).boxed().toList();
            assertEquals(list, again(list));
        }
        Object tree = Arrays.asList(null, true, false, 1.5, Map.of("k", List.of(Map.of(1L, "ü"))));
        assertEquals(tree, again(tree));
    }

    @Test
    public void textsAreReadAsBytesWhereThatIsAskedFor() throws IOException {
        assertArrayEquals(new byte[] {'a'}, (byte[]) MessagePack.read(ByteBuffer.wrap(written("a")), true));
    }

    @Test
    public void whatIsCutOffOrRandomIsRefusedAndNothingElse() {
        byte[] whole = written(List.of("text", Map.of("k", new byte[300]), 70_000));
        for (int length = 0; length < whole.length; length++) {
            ByteBuffer cut = ByteBuffer.wrap(whole, 0, length);
            assertThrows(IOException.class, () -> MessagePack.read(cut, false));
        }
        SplittableRandom random = new SplittableRandom(3);
        for (int round = 0; round < 20_000; round++) {
            byte[] noise = new byte[random.nextInt(1, 40)];
            random.nextBytes(noise);
            try {
                MessagePack.read(ByteBuffer.wrap(noise), false);
            } catch (IOException refused) {
                // As it should be; anything else fails the test.
                continue;
            }
        }
    }

    @Test
    public void thePasswordIsProvedAsTheProtocolSays() {
        byte[] salt = new byte[20];
        // sha1("auction") xor sha1(salt, sha1(sha1("auction"))), worked out by another program.
        assertEquals(20, TarantoolConnection.proof("auction", salt).length);
        assertEquals(PROOF, java.util.HexFormat.of().formatHex(TarantoolConnection.proof("auction", salt)));
    }

    private static final String PROOF = "3d093af9417c8a5608bdeae8af8ce87ea715aaed";
}
