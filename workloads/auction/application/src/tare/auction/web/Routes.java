package tare.auction.web;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** The table of routes, and the servlet that follows it. */
public final class Routes extends HttpServlet {
    private static final long serialVersionUID = 1;
    /** The header that carries a token. */
    static final String TOKEN = "API_TOKEN";

    /** Whose token that is. */
    public interface Tokens {
        Optional<Long> user(String token) throws Exception;
    }

    private record Route(String method, String[] parts, boolean open, Exchange.Handler handler) {
        /** The variable parts of a path that is this route's; null if it is another's. */
        List<String> matches(String asked, String[] path) {
            if (!method.equals(asked) || path.length != parts.length) {
                return null;
            }
            List<String> variables = new ArrayList<>(2);
            for (int i = 0; i < path.length; i++) {
                if (parts[i].equals("*")) {
                    variables.add(path[i]);
                } else if (!parts[i].equals(path[i])) {
                    return null;
                }
            }
            return variables;
        }
    }

    private final transient List<Route> routes = new ArrayList<>();
    private final transient Tokens tokens;

    /** A table without routes. */
    public Routes(Tokens tokens) {
        this.tokens = tokens;
    }

    /** Adds a route for who has logged in. A part {@code *} of the path may be anything; earlier routes go first. */
    public Routes route(String method, String path, Exchange.Handler handler) {
        routes.add(new Route(method, split(path), false, handler));
        return this;
    }

    /** Adds a route for anybody. */
    public Routes open(String method, String path, Exchange.Handler handler) {
        routes.add(new Route(method, split(path), true, handler));
        return this;
    }

    private static String[] split(String path) {
        return path.substring(1).split("/");
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = request.getPathInfo();
        String[] parts = split(path == null || path.isEmpty() ? "/" : path);
        for (Route route : routes) {
            List<String> variables = route.matches(request.getMethod(), parts);
            if (variables == null) {
                continue;
            }
            Exchange.orRefuse(new Exchange(request, response, variables, 0), anonymous -> {
                long user = route.open() ? 0 : Optional.ofNullable(request.getHeader(TOKEN))
                        .flatMap(this::userOf)
                        .orElseThrow(() -> new ApiException(401, "log in first"));
                Exchange.orRefuse(new Exchange(request, response, variables, user), route.handler());
            });
            return;
        }
        new Exchange(request, response, List.of(), 0).refuse(404, "there is nothing at " + path);
    }

    private Optional<Long> userOf(String token) {
        try {
            return tokens.user(token);
        } catch (Exception failure) {
            throw new ApiException(503, failure.toString());
        }
    }
}
