package tare.auction.register;

/**
 * What a server says of itself, for as long as it runs: the first time it registers by that, and each time after it goes
 * on. All that the register has of a server stands in it, so that a manager that was started again knows as much as before.
 *
 * @param id which process it is; another one at the same port is another server
 * @param role what it is started as
 * @param port where it listens for users, or will
 * @param warmPort where it answers before that, to be warmed
 * @param since when it came, in milliseconds since 1970
 * @param listening whether users are let in
 * @param warmth how it was warmed; null before
 */
public record Word(String id, String role, int port, int warmPort, long since, boolean listening, Warmth warmth) {
    /** What is wrong with it; null if nothing is. */
    String mistake() {
        if (id == null || id.isEmpty() || role == null || role.isEmpty()) {
            return "id and role must be stated";
        }
        return isPort(port) && isPort(warmPort) ? null : "port and warmPort must be from 1 to 65535";
    }

    private static boolean isPort(int port) {
        return port > 0 && port < 65_536;
    }

    /** What a server is answered: how far it is, and how it was warmed when that is over. */
    public record Answer(State state, Warmth warmth) {}
}
