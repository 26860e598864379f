package tare.auction.data;

/** How many things there are, and the sum of their hashes: the same for the same things in any order. */
final class Checksum {
    private long count;
    private long sum;

    /** Adds one. */
    synchronized void add(String text) {
        long hash = 0xcbf29ce484222325L;
        for (int i = 0; i < text.length(); i++) {
            hash = (hash ^ text.charAt(i)) * 0x100000001b3L;
        }
        count++;
        sum += hash;
    }

    /** Adds all that another one counted. */
    synchronized void add(Checksum other) {
        count += other.count;
        sum += other.sum;
    }

    @Override
    public synchronized String toString() {
        return count + " rows, sum " + Long.toHexString(sum);
    }
}
