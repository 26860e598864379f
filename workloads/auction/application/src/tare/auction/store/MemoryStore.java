package tare.auction.store;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import tare.auction.model.Attendance;
import tare.auction.model.Bid;
import tare.auction.model.ImageInfo;
import tare.auction.model.Page;

/** Both stores in the memory of one process: for tests, and to weigh the application without a store. */
public final class MemoryStore implements EventStore, ImageStore {
    private static final Comparator<Bid> KEY =
            Comparator.comparingLong(Bid::bidderId).thenComparingLong(Bid::timeMicros).thenComparing(Bid::id);

    private final ConcurrentSkipListMap<Bid, Bid> bids = new ConcurrentSkipListMap<>(KEY);
    private final Collection<Attendance> attendance = new ConcurrentLinkedQueue<>();
    private final Collection<ImageInfo> infos = new ConcurrentLinkedQueue<>();
    private final ConcurrentHashMap<String, byte[]> images = new ConcurrentHashMap<>();

    @Override
    public void addBid(Bid bid) {
        bids.putIfAbsent(bid, bid);
    }

    @Override
    public void putBid(Bid bid) {
        bids.put(bid, bid);
    }

    @Override
    public Optional<Bid> bid(Bid bid) {
        return Optional.ofNullable(bids.get(bid));
    }

    @Override
    public Page<Bid> bidsOf(long user, int page, int size) {
        List<Bid> own = new ArrayList<>(bids.values().stream().filter(bid -> bid.bidderId() == user).toList());
        own.sort(KEY.reversed());
        return page(own, page, size);
    }

    @Override
    public void addAttendance(Attendance record) {
        attendance.add(record);
    }

    @Override
    public Page<Attendance> attendanceOf(long user, int page, int size) {
        return page(attendance.stream().filter(record -> record.userId() == user)
                .sorted(Comparator.comparingLong(Attendance::timeMicros).reversed()).toList(), page, size);
    }

    @Override
    public void loadBids(List<Bid> many) {
        many.forEach(this::putBid);
    }

    @Override
    public void loadAttendance(List<Attendance> many) {
        attendance.addAll(many);
    }

    @Override
    public List<Bid> bidsAfter(Bid last, int most) {
        return (last == null ? bids : bids.tailMap(last, false)).values().stream().limit(most).toList();
    }

    @Override
    public long attendanceCount() {
        return attendance.size();
    }

    @Override
    public void addInfo(ImageInfo info) {
        infos.add(info);
    }

    @Override
    public void put(UUID image, ImageInfo.Size size, byte[] bytes) {
        images.put(size + " " + image, bytes);
    }

    @Override
    public Optional<byte[]> get(UUID image, ImageInfo.Size size) {
        return Optional.ofNullable(images.get(size + " " + image));
    }

    @Override
    public List<ImageInfo> of(long item) {
        return infos.stream().filter(info -> info.itemId() == item).toList();
    }

    @Override
    public long count(ImageInfo.Size size) {
        return size == null ? infos.size()
                : images.keySet().stream().filter(name -> name.startsWith(size + " ")).count();
    }

    @Override
    public void close() {
        // Nothing outlives the process.
    }

    private static <T> Page<T> page(List<T> all, int page, int size) {
        return new Page<>(all.size(), page, size, all.stream().skip((long) page * size).limit(size).toList());
    }
}
