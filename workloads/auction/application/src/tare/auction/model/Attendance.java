package tare.auction.model;

import java.util.UUID;

/** That a user came to an auction or left it. */
public record Attendance(UUID id, long userId, long timeMicros, long auctionId, States.AttendanceState state) {

    /** What clients see of it. */
    public View view() {
        return new View(id.toString(), userId, auctionId, timeMicros / 1000, state.name());
    }

    /** The answer to joining and leaving, and a line of a history. */
    public record View(String id, long userId, long auctionId, long timestamp, String state) {}
}
