package tare.auction.sql;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import tare.auction.Settings;

/** The connections to PostgreSQL, and the few ways in which the rest of the program uses them. */
public final class Database implements AutoCloseable {
    private final HikariDataSource pool;

    /** Opens the pool, whose size is stated; the server may take up to {@code start.within} to answer. */
    public Database(Settings settings) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + settings.address("database.address") + "/" + settings.text("database.name"));
        config.setUsername(settings.text("database.user"));
        config.setPassword(settings.text("database.password"));
        config.setMaximumPoolSize(settings.number("database.connections"));
        config.setMinimumIdle(settings.number("database.connections.idle"));
        config.setConnectionTimeout(settings.longNumber("database.wait"));
        config.setInitializationFailTimeout(settings.longNumber("start.within"));
        config.setAutoCommit(true);
        config.setTransactionIsolation("TRANSACTION_READ_COMMITTED");
        // Statements are prepared on the server from their third use on; the number is stated for it decides the cost.
        config.addDataSourceProperty("prepareThreshold", 3);
        config.addDataSourceProperty("preparedStatementCacheQueries", 256);
        config.addDataSourceProperty("tcpKeepAlive", true);
        // A server that died without a word must not keep an auction waiting for ever.
        config.addDataSourceProperty("socketTimeout", settings.number("database.answer"));
        pool = new HikariDataSource(config);
    }

    /** What is done with a connection. */
    public interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    /** How a row is read. */
    public interface Row<T> {
        T read(ResultSet row) throws SQLException;
    }

    /** Does something with a connection of the pool, each statement by itself. */
    public <T> T with(Work<T> work) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            return work.on(connection);
        }
    }

    /** Does something as one transaction; any exception takes it back. */
    public <T> T transact(Work<T> work) throws SQLException {
        try (Connection connection = pool.getConnection()) {
            connection.setAutoCommit(false);
            try {
                T result = work.on(connection);
                connection.commit();
                return result;
            } catch (SQLException | RuntimeException failure) {
                try {
                    connection.rollback();
                } catch (SQLException worse) {
                    failure.addSuppressed(worse);
                }
                throw failure;
            } finally {
                if (!connection.isClosed()) {
                    connection.setAutoCommit(true);
                }
            }
        }
    }

    /** All rows of a query. */
    public <T> List<T> list(Row<T> reader, String sql, Object... arguments) throws SQLException {
        return with(connection -> list(connection, reader, sql, arguments));
    }

    /** The first row of a query, if there is one. */
    public <T> Optional<T> first(Row<T> reader, String sql, Object... arguments) throws SQLException {
        return list(reader, sql, arguments).stream().findFirst();
    }

    /** The number in the first column of the first row. */
    public long count(String sql, Object... arguments) throws SQLException {
        return first(row -> row.getLong(1), sql, arguments).orElse(0L);
    }

    /** Carries out a statement and tells how many rows it touched. */
    public int update(String sql, Object... arguments) throws SQLException {
        return with(connection -> update(connection, sql, arguments));
    }

    /** All rows of a query over a connection, for instance inside of a transaction. */
    public static <T> List<T> list(Connection connection, Row<T> reader, String sql, Object... arguments)
            throws SQLException {
        try (PreparedStatement statement = prepared(connection, sql, arguments);
                ResultSet rows = statement.executeQuery()) {
            List<T> found = new ArrayList<>();
            while (rows.next()) {
                found.add(reader.read(rows));
            }
            return found;
        }
    }

    /** Carries out a statement over a connection. */
    public static int update(Connection connection, String sql, Object... arguments) throws SQLException {
        try (PreparedStatement statement = prepared(connection, sql, arguments)) {
            return statement.executeUpdate();
        }
    }

    private static PreparedStatement prepared(Connection connection, String sql, Object... arguments)
            throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int i = 0; i < arguments.length; i++) {
            statement.setObject(i + 1, arguments[i]);
        }
        return statement;
    }

    @Override
    public void close() {
        pool.close();
    }
}
