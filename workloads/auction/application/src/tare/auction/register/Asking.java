package tare.auction.register;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.time.Duration;
import tare.auction.Json;

/** Asks another process of the site over HTTP, below {@code /auction}, as one user. Connections are kept. */
final class Asking {
    private static final String TOKEN = "API_TOKEN";

    private final String base;
    private final int connectMillis;
    private final int answerMillis;
    private String token;

    /** At {@code host:port}. */
    Asking(String address, Duration connect, Duration answer) {
        base = "http://" + address + "/auction";
        connectMillis = Math.toIntExact(connect.toMillis());
        answerMillis = Math.toIntExact(answer.toMillis());
    }

    /** From now on as the user to whom {@code token} was given. */
    void as(String token) {
        this.token = token;
    }

    /** The body of the answer. Another status than {@code meant} is an {@link IOException}. */
    byte[] ask(String method, String path, Object body, int meant) throws IOException {
        HttpURLConnection request = (HttpURLConnection) new URL(base + path).openConnection();
        request.setRequestMethod(method);
        request.setConnectTimeout(connectMillis);
        request.setReadTimeout(answerMillis);
        if (token != null) {
            request.setRequestProperty(TOKEN, token);
        }
        if (body != null) {
            request.setDoOutput(true);
            try (OutputStream out = request.getOutputStream()) {
                out.write(Json.bytes(body));
            }
        }
        int status = request.getResponseCode();
        try (InputStream in = status < 400 ? request.getInputStream() : request.getErrorStream()) {
            byte[] answer = in == null ? new byte[0] : in.readAllBytes();
            if (status != meant) {
                throw new IOException(method + " " + path + " was answered with " + status);
            }
            return answer;
        }
    }
}
