package tare.auction;

import java.math.BigDecimal;
import java.math.RoundingMode;

/** Amounts are kept as whole cents, so that sums are exact; clients see and send them as decimal numbers. */
public final class Money {
    private Money() {}

    /** What clients see for {@code cents}. */
    public static BigDecimal shown(long cents) {
        return BigDecimal.valueOf(cents, 2);
    }

    /** Cents of a decimal number of a client; fractions of a cent are rounded half up. */
    public static long cents(BigDecimal amount) {
        return amount.movePointRight(2).setScale(0, RoundingMode.HALF_UP).longValueExact();
    }
}
