package tare.auction.store;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import tare.auction.model.Attendance;
import tare.auction.model.Bid;
import tare.auction.model.Page;

/**
 * Where bids and attendance are kept: many small records, written once or twice and read by user, newest first. Which
 * store that is, is a setting ({@code events.store}).
 */
public interface EventStore extends AutoCloseable {
    /** Writes a bid if there is none of its key yet; what is there already is newer and stays. */
    void addBid(Bid bid) throws IOException;

    /** Writes a bid over whatever there is of its key. */
    void putBid(Bid bid) throws IOException;

    /** The bid with the key of {@code bid}. */
    Optional<Bid> bid(Bid bid) throws IOException;

    /** A page of a user's bids, the newest first. */
    Page<Bid> bidsOf(long user, int page, int size) throws IOException;

    /** Writes that somebody came or left. */
    void addAttendance(Attendance attendance) throws IOException;

    /** A page of where a user was, the newest first. */
    Page<Attendance> attendanceOf(long user, int page, int size) throws IOException;

    /** Writes many bids at once, for loading. */
    void loadBids(List<Bid> bids) throws IOException;

    /** Writes many records of attendance at once, for loading. */
    void loadAttendance(List<Attendance> attendance) throws IOException;

    /**
     * Up to {@code most} bids behind {@code last} in the order of keys, from the beginning if that is null; fewer than
     * {@code most} are the last ones.
     */
    List<Bid> bidsAfter(Bid last, int most) throws IOException;

    /** How many records of attendance there are. */
    long attendanceCount() throws IOException;

    @Override
    void close();
}
