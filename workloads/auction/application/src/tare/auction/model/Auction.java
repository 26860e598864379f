package tare.auction.model;

import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;

/** An auction, as the database has it. */
public record Auction(long id, String name, String category, LocalDateTime start, States.AuctionState state) {

    /** What clients see of it. */
    public View view() {
        LocalDate date = start.toLocalDate();
        LocalTime time = start.toLocalTime();
        return new View(id, name, category, date.toString(), time.format(DateTimeFormatter.ISO_LOCAL_TIME), state.name());
    }

    /** The answer to a question for an auction. */
    public record View(long id, String name, String category, String startDate, String startTime, String state) {}
}
