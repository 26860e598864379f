package tare.auction.web;

/** Ends a request with a status and a reason. */
public final class ApiException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final int status;

    /** To be answered with {@code status}. */
    public ApiException(int status, String reason) {
        // No stack: this is an answer, not a failure.
        super(reason, null, false, false);
        this.status = status;
    }

    /** The status of the answer. */
    public int status() {
        return status;
    }
}
