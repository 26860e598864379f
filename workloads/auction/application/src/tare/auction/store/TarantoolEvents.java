package tare.auction.store;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import tare.auction.Settings;
import tare.auction.model.Attendance;
import tare.auction.model.Bid;
import tare.auction.model.Page;
import tare.auction.model.States.AttendanceState;
import tare.auction.model.States.BidState;

/** Bids and attendance in Tarantool. */
final class TarantoolEvents implements EventStore {
    private final TarantoolPool pool;

    TarantoolEvents(Settings settings) {
        pool = new TarantoolPool(settings, "events");
    }

    @Override
    public void addBid(Bid bid) throws IOException {
        pool.call("bid_add", row(bid));
    }

    @Override
    public void putBid(Bid bid) throws IOException {
        pool.call("bid_put", row(bid));
    }

    @Override
    public Optional<Bid> bid(Bid bid) throws IOException {
        List<?> found = pool.call("bid_get", bid.bidderId(), bid.timeMicros(), bid.id().toString());
        return found.isEmpty() || found.get(0) == null ? Optional.empty() : Optional.of(bid((List<?>) found.get(0)));
    }

    @Override
    public Page<Bid> bidsOf(long user, int page, int size) throws IOException {
        List<?> found = pool.call("bids_of", user, (long) page * size, size);
        return new Page<>((long) found.get(0), page, size,
                rows(found.get(1)).stream().map(TarantoolEvents::bid).toList());
    }

    @Override
    public void addAttendance(Attendance attendance) throws IOException {
        pool.call("attendance_put", row(attendance));
    }

    @Override
    public Page<Attendance> attendanceOf(long user, int page, int size) throws IOException {
        List<?> found = pool.call("attendance_of", user, (long) page * size, size);
        return new Page<>((long) found.get(0), page, size,
                rows(found.get(1)).stream().map(TarantoolEvents::attendance).toList());
    }

    @Override
    public void loadBids(List<Bid> bids) throws IOException {
        pool.call("bids_load", bids.stream().map(TarantoolEvents::row).toList());
    }

    @Override
    public void loadAttendance(List<Attendance> attendance) throws IOException {
        pool.call("attendance_load", attendance.stream().map(TarantoolEvents::row).toList());
    }

    @Override
    public List<Bid> bidsAfter(Bid last, int most) throws IOException {
        List<?> key = last == null ? List.of() : List.of(last.bidderId(), last.timeMicros(), last.id().toString());
        return rows(pool.call("bids_after", key, most).get(0)).stream().map(TarantoolEvents::bid).toList();
    }

    @Override
    public long attendanceCount() throws IOException {
        return (long) pool.call("attendance_count").get(0);
    }

    @Override
    public void close() {
        pool.close();
    }

    @SuppressWarnings("unchecked")
    private static List<List<?>> rows(Object answer) {
        return (List<List<?>>) answer;
    }

    private static List<?> row(Bid bid) {
        return Arrays.asList(bid.bidderId(), bid.timeMicros(), bid.id().toString(), bid.auctionId(), bid.itemId(),
                bid.cents(), bid.state().name(), bid.highBidId(), bid.sequence());
    }

    private static Bid bid(List<?> row) {
        return new Bid(UUID.fromString((String) row.get(2)), (long) row.get(0), (long) row.get(1), (long) row.get(3),
                (long) row.get(4), (long) row.get(5), BidState.valueOf((String) row.get(6)), (long) row.get(7),
                ((Long) row.get(8)).intValue());
    }

    private static List<?> row(Attendance attendance) {
        return Arrays.asList(attendance.userId(), attendance.timeMicros(), attendance.id().toString(),
                attendance.auctionId(), attendance.state().name());
    }

    private static Attendance attendance(List<?> row) {
        return new Attendance(UUID.fromString((String) row.get(2)), (long) row.get(0), (long) row.get(1),
                (long) row.get(3), AttendanceState.valueOf((String) row.get(4)));
    }
}
