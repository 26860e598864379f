package tare.auction.data;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;

import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import javax.imageio.ImageIO;
import org.junit.Test;

/** The picture that users add to their items. */
public class PictureTest {
    private final Path file = Path.of(System.getProperty("workload"), "picture.jpg");

    @Test
    public void itIsMadeByOurEncoder() throws Exception {
        assertArrayEquals(NoiseJpeg.make(new SplittableRandom(1), 896, 0), Files.readAllBytes(file));
    }

    @Test
    public void whatFollowsItsEndDoesNotChangeIt() throws Exception {
        byte[] alone = Files.readAllBytes(file);
        byte[] filled = Arrays.copyOf(alone, 586_000);
        Arrays.fill(filled, alone.length, filled.length, (byte) 'x');
        BufferedImage one = ImageIO.read(new ByteArrayInputStream(alone));
        BufferedImage other = ImageIO.read(new ByteArrayInputStream(filled));
        assertEquals(896, other.getWidth());
        int[] seen = other.getRGB(0, 0, 896, 896, null, 0, 896);
        assertArrayEquals(one.getRGB(0, 0, 896, 896, null, 0, 896), seen);
        assertEquals("it is no single colour", true, Arrays.stream(seen).distinct().count() > 100);
    }
}
