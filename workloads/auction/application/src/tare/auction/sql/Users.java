package tare.auction.sql;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Optional;
import tare.auction.model.Account;

/** Who may do what: the table {@code userdata}. */
public final class Users {
    private static final String COLUMNS =
            "id, email, firstname, lastname, password, creditlimit, enabled, loggedin, authorities";

    private final Database database;

    /** Over {@code database}. */
    public Users(Database database) {
        this.database = database;
    }

    /** The user with this identifier. */
    public Optional<Account> byId(long id) throws SQLException {
        return database.first(Users::read, "SELECT " + COLUMNS + " FROM userdata WHERE id = ?", id);
    }

    /** The user with this name. */
    public Optional<Account> byName(String name) throws SQLException {
        return database.first(Users::read, "SELECT " + COLUMNS + " FROM userdata WHERE email = ?", name);
    }

    /** The user to whom a token was given. */
    public Optional<Long> byToken(String token) throws SQLException {
        return database.first(row -> row.getLong(1), "SELECT id FROM userdata WHERE authtoken = ?", token);
    }

    /** Notes that a user came. The answer is the user's token: the one of an earlier login, or else {@code token}. */
    public String login(long id, String token) throws SQLException {
        return database.first(row -> row.getString(1), "UPDATE userdata SET authtoken = coalesce(authtoken, ?),"
                + " loggedin = true, version = version + 1 WHERE id = ? RETURNING authtoken", token, id)
                .orElseThrow(() -> new SQLException("the user " + id + " is gone"));
    }

    /** Takes a token back. */
    public void logout(long id) throws SQLException {
        database.update("UPDATE userdata SET authtoken = NULL, loggedin = false, version = version + 1 WHERE id = ?", id);
    }

    /** Takes one of the users who warm servers up, whom no other server has; empty if all of them are taken. */
    public Optional<Account> takeWarmer() throws SQLException {
        return database.first(Users::read, "UPDATE userdata SET loggedin = true WHERE id = (SELECT id FROM userdata"
                + " WHERE email LIKE 'warmer%@auction.test' AND NOT loggedin ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
                + " RETURNING " + COLUMNS);
    }

    /** Puts what logging in changes back to how it was loaded, of a user that only the program itself is. */
    public void restore(long id) throws SQLException {
        database.update("UPDATE userdata SET authtoken = NULL, loggedin = false, version = 0 WHERE id = ?", id);
    }

    /** Adds a user; empty if the name is taken. */
    public Optional<Account> register(String name, String password, String first, String last, long creditCents)
            throws SQLException {
        return database.first(Users::read,
                "INSERT INTO userdata (id, email, password, firstname, lastname, creditgranted, creditlimit, enabled,"
                        + " loggedin, authorities) VALUES (nextval('userdata_ids'), ?, ?, ?, ?, ?, ?, true, false, 'watcher')"
                        + " ON CONFLICT (email) DO NOTHING RETURNING " + COLUMNS,
                name, password, first, last, creditCents, creditCents);
    }

    /** Changes what users may change of themselves; what is null stays. */
    public Optional<Account> change(long id, String first, String last, String password) throws SQLException {
        return database.first(Users::read,
                "UPDATE userdata SET firstname = coalesce(?::text, firstname), lastname = coalesce(?::text, lastname),"
                        + " password = coalesce(?::text, password), version = version + 1 WHERE id = ? RETURNING "
                        + COLUMNS,
                first, last, password, id);
    }

    private static Account read(ResultSet row) throws SQLException {
        return new Account(row.getLong(1), row.getString(2), row.getString(3), row.getString(4), row.getString(5),
                row.getLong(6), row.getBoolean(7), row.getBoolean(8), row.getString(9));
    }
}
