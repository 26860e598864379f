package tare.auction.sql;

import java.sql.SQLException;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;

/**
 * The simulated clock. It begins at the same moment in each deployment, so that data made for that moment never age;
 * all processes add the one offset that the first of them wrote into the database.
 */
public final class Clock {
    /** When simulated time begins. */
    public static final LocalDateTime BEGINNING = LocalDateTime.of(2030, 2, 2, 12, 0);

    private final long offsetMicros;

    private Clock(long offsetMicros) {
        this.offsetMicros = offsetMicros;
    }

    /** The clock that all processes on this database share. */
    public static Clock shared(Database database) throws SQLException {
        database.update("INSERT INTO fixedtimeoffset (id, micros) VALUES (1, ?) ON CONFLICT (id) DO NOTHING",
                micros(BEGINNING) - machineMicros());
        return new Clock(database.count("SELECT micros FROM fixedtimeoffset WHERE id = 1"));
    }

    /** Has time begin again with the next process that asks for the clock. For when nobody has it. */
    public static void stop(Database database) throws SQLException {
        database.update("DELETE FROM fixedtimeoffset");
    }

    /** Microseconds since 1970 by the simulated clock. */
    public long nowMicros() {
        return machineMicros() + offsetMicros;
    }

    /** Microseconds since 1970 of a time of the database. */
    public static long micros(LocalDateTime time) {
        return ChronoUnit.MICROS.between(LocalDateTime.ofEpochSecond(0, 0, ZoneOffset.UTC), time);
    }

    /** The time of the database for microseconds since 1970. */
    public static LocalDateTime time(long micros) {
        return LocalDateTime.ofEpochSecond(0, 0, ZoneOffset.UTC).plus(micros, ChronoUnit.MICROS);
    }

    private static long machineMicros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
