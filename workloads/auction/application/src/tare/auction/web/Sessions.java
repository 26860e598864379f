package tare.auction.web;

import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Optional;

/**
 * Whose tokens are good, as this process knows. The database says which token a user has; what it said is kept until
 * somebody tells that the user went. A token begins with its user's number, so that what is kept of a user can be
 * forgotten without knowing the token.
 */
final class Sessions implements Routes.Tokens {
    private static final int TOKEN_BYTES = 16;
    private static final char BEHIND_USER = '-';

    private final Cache<Long, String> kept;
    private final Source users;
    private final SecureRandom random = new SecureRandom();

    /** Who knows all tokens. */
    interface Source {
        /** The user to whom a token was given. */
        Optional<Long> byToken(String token) throws Exception;
    }

    /** Keeps the tokens of {@code most} users. */
    Sessions(int most, Source users) {
        this.kept = new Cache<>(most);
        this.users = users;
    }

    /** A token that nobody has yet. */
    String token(long user) {
        byte[] bytes = new byte[TOKEN_BYTES];
        random.nextBytes(bytes);
        return Long.toHexString(user) + BEHIND_USER + HexFormat.of().formatHex(bytes);
    }

    @Override
    public Optional<Long> user(String token) throws Exception {
        Optional<Long> claimed = claimed(token);
        if (claimed.isEmpty()) {
            return claimed;
        }
        long user = claimed.get();
        if (kept.kept(user).filter(token::equals).isPresent()) {
            return claimed;
        }
        long since = kept.removals();
        Optional<Long> found = users.byToken(token).filter(claimed.get()::equals);
        found.ifPresent(same -> kept.put(same, token, since));
        return found;
    }

    /** The user whose token this would be; empty if it is none of ours. */
    private static Optional<Long> claimed(String token) {
        int end = token.indexOf(BEHIND_USER);
        if (end < 1 || end > 15) {
            return Optional.empty();
        }
        try {
            return Optional.of(Long.parseLong(token, 0, end, 16));
        } catch (NumberFormatException mistake) {
            return Optional.empty();
        }
    }

    /** The user's token is void. */
    void forget(long user) {
        kept.remove(user);
    }

    /** Any of the tokens may be void. */
    void forgetAll() {
        kept.clear();
    }
}
