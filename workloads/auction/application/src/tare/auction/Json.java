package tare.auction;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** JSON of records, for clients and for messages. */
public final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {}

    /** The UTF-8 text of {@code value}. */
    public static byte[] bytes(Object value) {
        try {
            return MAPPER.writeValueAsBytes(value);
        } catch (JsonProcessingException impossible) {
            throw new IllegalStateException("a record of ours cannot be written as JSON", impossible);
        }
    }

    /** Reads a record. */
    public static <T> T read(byte[] text, Class<T> type) throws IOException {
        return MAPPER.readValue(text, type);
    }

    /** Reads a tree; a text that is no JSON is an {@link IOException}. */
    public static JsonNode tree(byte[] text) throws IOException {
        return MAPPER.readTree(text);
    }
}
