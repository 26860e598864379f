package tare.auction.web;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.sql.SQLTransientException;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import tare.auction.Json;

/** A request and its answer, as the routes see them. */
public final class Exchange {
    private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);
    private static final int BODY_MAX = 1 << 20;
    private static final int PAGE_SIZE = 10;
    private static final int PAGE_SIZE_MAX = 1000;

    private final HttpServletRequest request;
    private final HttpServletResponse response;
    private final List<String> variables;
    private final long user;
    private AsyncContext later;
    private JsonNode body;

    Exchange(HttpServletRequest request, HttpServletResponse response, List<String> variables, long user) {
        this.request = request;
        this.response = response;
        this.variables = variables;
        this.user = user;
    }

    /** Who asks; 0 where a route lets anybody ask. */
    public long user() {
        return user;
    }

    /** The number in the path's {@code index}-th variable part. */
    public long number(int index) {
        try {
            return Long.parseLong(variables.get(index));
        } catch (NumberFormatException mistake) {
            throw new ApiException(404, "'" + variables.get(index) + "' is no number");
        }
    }

    /** The path's {@code index}-th variable part. */
    public String text(int index) {
        return variables.get(index);
    }

    /** A parameter of the query, or {@code otherwise}. */
    public String parameter(String name, String otherwise) {
        String value = request.getParameter(name);
        return value == null ? otherwise : value;
    }

    /** Which page is asked for, from 0. */
    public int page() {
        return bounded("page", 0, 0, Integer.MAX_VALUE);
    }

    /** How many entries of a page are asked for. */
    public int pageSize() {
        return bounded("pageSize", PAGE_SIZE, 1, PAGE_SIZE_MAX);
    }

    private int bounded(String name, int otherwise, int least, int most) {
        String value = request.getParameter(name);
        if (value == null) {
            return otherwise;
        }
        try {
            return Math.max(least, Math.min(most, Integer.parseInt(value)));
        } catch (NumberFormatException mistake) {
            throw new ApiException(400, name + " is no number");
        }
    }

    /** The whole body. */
    public <T> T record(Class<T> type) throws IOException {
        try {
            return Json.read(request.getInputStream().readNBytes(BODY_MAX), type);
        } catch (JsonProcessingException mistake) {
            throw new ApiException(400, "the body is no " + type.getSimpleName() + ": " + mistake.getOriginalMessage());
        }
    }

    /** The address of the host that asks. */
    public String host() {
        return request.getRemoteAddr();
    }

    /** A number of the body that must be there. */
    public long needNumber(String name) throws IOException {
        JsonNode value = body().path(name);
        if (!value.canConvertToExactIntegral() && !value.isTextual()) {
            throw new ApiException(400, name + " is missing, or is no whole number");
        }
        try {
            return value.isTextual() ? Long.parseLong(value.textValue()) : value.longValue();
        } catch (NumberFormatException mistake) {
            throw new ApiException(400, name + " is no whole number");
        }
    }

    /** An amount of the body; null if there is none. */
    public BigDecimal amount(String name) throws IOException {
        JsonNode value = body().path(name);
        try {
            return value.isNumber() ? value.decimalValue()
                    : value.isTextual() ? new BigDecimal(value.textValue()) : null;
        } catch (NumberFormatException mistake) {
            throw new ApiException(400, name + " is no amount");
        }
    }

    /** A text of the body; null if there is none. */
    public String string(String name) throws IOException {
        JsonNode value = body().path(name);
        return value.isValueNode() && !value.isNull() ? value.asText() : null;
    }

    private JsonNode body() throws IOException {
        if (body == null) {
            byte[] bytes = request.getInputStream().readNBytes(BODY_MAX + 1);
            if (bytes.length > BODY_MAX) {
                throw new ApiException(413, "the body is too long");
            }
            try {
                body = Json.tree(bytes);
            } catch (IOException mistake) {
                throw new ApiException(400, "the body is no JSON");
            }
        }
        return body;
    }

    /** The request itself, for what only one route needs. */
    HttpServletRequest request() {
        return request;
    }

    /** Answers 200. */
    public void answer(Object value) {
        answer(200, value);
    }

    /** Answers with a record as JSON. Nothing of it may be kept by anybody. */
    public void answer(int status, Object value) {
        response.setHeader("Cache-Control", "no-store");
        send(status, "application/json", Json.bytes(value));
    }

    /** Answers that something went otherwise. */
    public void refuse(int status, String reason) {
        answer(status, Map.of("status", status, "message", reason == null ? "" : reason));
    }

    /** Answers with an image that may be kept for a month, by browsers and by proxies. */
    void image(byte[] bytes) {
        response.setHeader("Cache-Control", "public, max-age=2592000");
        send(200, "image/jpeg", bytes);
    }

    private void send(int status, String type, byte[] bytes) {
        try {
            response.setStatus(status);
            response.setContentType(type);
            response.setContentLength(bytes.length);
            response.getOutputStream().write(bytes);
        } catch (IOException gone) {
            LOG.debug("nobody waited for the answer: {}", gone.toString());
        } finally {
            if (later != null) {
                later.complete();
            }
        }
    }

    /** The answer will come later, from another thread. Who says so ends it, however long it takes. */
    public void later() {
        later = request.startAsync();
        // Waits have ends of their own; the container's would answer a second time.
        later.setTimeout(0);
    }

    /** Whether the answer comes later. */
    boolean isLater() {
        return later != null;
    }

    /** Whether the database is not there, rather than against what was asked: to be asked again later. */
    private static boolean isAway(SQLException failure) {
        String state = String.valueOf(failure.getSQLState());
        return failure instanceof SQLTransientException || state.startsWith("08") || state.startsWith("57");
    }

    /** What a route does. */
    public interface Handler {
        void handle(Exchange exchange) throws Exception;
    }

    /** Does something that ends the exchange if it fails. */
    static void orRefuse(Exchange exchange, Handler handler) {
        try {
            handler.handle(exchange);
        } catch (ApiException refused) {
            exchange.refuse(refused.status(), refused.getMessage());
        } catch (UncheckedIOException | IOException failure) {
            LOG.warn("{} {}: {}", exchange.request.getMethod(), exchange.request.getRequestURI(), failure.toString());
            exchange.refuse(503, failure.getMessage());
        } catch (SQLException failure) {
            LOG.warn("{} {}: {}", exchange.request.getMethod(), exchange.request.getRequestURI(), failure.toString());
            exchange.refuse(isAway(failure) ? 503 : 500, failure.getMessage());
        } catch (Exception failure) {
            LOG.warn("{} {}", exchange.request.getMethod(), exchange.request.getRequestURI(), failure);
            exchange.refuse(500, failure.toString());
        }
    }
}
