package tare.auction.data;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.Deflater;
import javax.imageio.ImageIO;
import org.junit.Test;
import tare.auction.model.Bid;
import tare.auction.model.ImageInfo;

public class GeneratorTest {
    private final Sizes small = new Sizes(60, 0.2, 1);

    @Test
    public void sizesAreThoseOfTheTable() {
        Sizes micro = new Sizes(3000, 1, 1);
        assertEquals(15_043, micro.users());
        assertEquals(200, micro.currentAuctions());
        assertEquals(7500, micro.historicAuctions());
        assertEquals(75_000, micro.purchases());
        assertEquals(1_500_000, micro.bids());
        assertEquals(320_000, micro.attendance());
        assertEquals("an average of fifteen", 3000, micro.currentItems());
        Sizes paper = new Sizes(60_000, 1, 1);
        assertEquals(4000, paper.currentAuctions());
        assertEquals(30_000_000, paper.bids());
        assertEquals("four at least", 4, new Sizes(15, 1, 1).currentAuctions());
        assertEquals("an even number", 22, new Sizes(301, 1, 1).currentAuctions());
    }

    @Test
    public void itemsFollowEachOtherWithoutAGap() {
        long next = 1;
        for (int auction = 1; auction <= small.auctions(); auction++) {
            assertEquals(next, small.firstItem(auction));
            next += small.itemsOf(auction);
        }
        assertEquals(small.items(), next - 1);
    }

    @Test
    public void currentAuctionsHaveTenToTwentyItemsAndTheirPlaceCostsNothing() {
        // So many auctions that adding up those before each of them would take hours.
        Sizes huge = new Sizes(15_000_000, 1, 3);
        Set<Integer> counts = new TreeSet<>();
        for (int auction = 1; auction <= huge.currentAuctions(); auction++) {
            counts.add(huge.itemsOf(auction));
        }
        assertEquals(IntStream.rangeClosed(10, 20).boxed().collect(Collectors.toSet()), counts);
        assertEquals(15_000_000, huge.currentItems());
    }

    @Test
    public void thereAreAsManyRowsAsWasSaidWithKeysOfTheirOwn() {
        Generator generator = new Generator(small);
        for (Table table : Table.values()) {
            Set<String> keys = new HashSet<>();
            Set<Integer> columns = new TreeSet<>();
            table.lines(generator, small, 1, table.units(small), line -> {
                // What only joins two others has no key of its own.
                assertTrue(line, keys.add(table == Table.AUCTION_KEYWORD ? line : line.substring(0, line.indexOf('\t'))));
                columns.add(line.split("\t", -1).length);
            });
            assertEquals(table.name(), table.rows(small), keys.size());
            assertEquals(Set.of(table.columns().split(",").length), columns);
        }
    }

    @Test
    public void theSameSeedMakesTheSameAndAnotherMakesOthers() {
        String[] sums = new String[3];
        for (int i = 0; i < 3; i++) {
            Sizes sizes = new Sizes(60, 0.2, i == 2 ? 2 : 1);
            Checksum sum = new Checksum();
            Table.USERDATA.lines(new Generator(sizes), sizes, 1, sizes.users(), sum::add);
            sums[i] = sum.toString();
        }
        assertEquals(sums[0], sums[1]);
        assertFalse(sums[0].equals(sums[2]));
    }

    @Test
    public void bidsOfThePastGrow() {
        for (List<Bid> bids : new Generator(small).bidsOf(small.currentAuctions() + 1)) {
            assertEquals(Sizes.BIDS_OF_ITEM, bids.size());
            for (int i = 1; i < bids.size(); i++) {
                assertTrue(bids.get(i).cents() > bids.get(i - 1).cents());
                assertTrue(bids.get(i).timeMicros() > bids.get(i - 1).timeMicros());
            }
        }
    }

    @Test
    public void imagesAreImagesOfTheirSizeThatDoNotCompress() throws Exception {
        SplittableRandom random = new SplittableRandom(5);
        for (int[] wanted : new int[][] {{100, 5_000}, {350, 45_000}, {896, 460_000}, {896, 899_999}}) {
            byte[] bytes = NoiseJpeg.make(random, wanted[0], wanted[1]);
            assertEquals(wanted[1], bytes.length, wanted[1] * 0.03 + 200);
            BufferedImage image = ImageIO.read(new ByteArrayInputStream(bytes));
            assertEquals(wanted[0], image.getWidth());
            assertEquals(wanted[0], image.getHeight());
            Deflater deflater = new Deflater(9);
            deflater.setInput(bytes);
            deflater.finish();
            int small = deflater.deflate(new byte[bytes.length * 2]);
            assertTrue(wanted[1] + " -> " + small, small > bytes.length * 0.93);
        }
    }

    @Test
    public void onlyCurrentItemsHaveFullImagesAndEachHasItsOwn() {
        Generator generator = new Generator(small);
        assertNull(generator.bytes(small.currentItems() + 1, 0, ImageInfo.Size.FULL));
        byte[] one = generator.bytes(1, 0, ImageInfo.Size.THUMBNAIL);
        assertArrayEquals(one, generator.bytes(1, 0, ImageInfo.Size.THUMBNAIL));
        assertFalse(java.util.Arrays.equals(one, generator.bytes(1, 1, ImageInfo.Size.THUMBNAIL)));
    }
}
