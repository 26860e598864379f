package tare.auction.web;

import jakarta.servlet.MultipartConfigElement;
import jakarta.servlet.http.HttpServlet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.Wrapper;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.ExpandWar;
import org.apache.catalina.startup.Tomcat;
import tare.auction.Settings;

/** The servlet container: Tomcat inside of this process, with one servlet. */
public final class Server implements AutoCloseable {
    private static final long UPLOAD_MAX = 16L << 20;
    private static final int WARM_UP_THREADS = 4;

    /** Kept here, or its level would be forgotten with it. */
    private static final java.util.logging.Logger TOMCAT_LOG = java.util.logging.Logger.getLogger("org.apache");

    private final Tomcat tomcat = new Tomcat();
    private final Path folder;

    /** What is done with a server before users are let in. */
    interface WarmUp {
        /** The server answers at its private port, and nowhere else. */
        void answering() throws Exception;

        /** The server answers nobody. */
        void silent() throws Exception;
    }

    /** Listens as stated, below {@code /auction}; answers as soon as this returns. */
    public Server(Settings settings, HttpServlet servlet) throws Exception {
        TOMCAT_LOG.setLevel(java.util.logging.Level.WARNING);
        folder = Files.createTempDirectory("auction");
        start(servlet, connector(settings, settings.address("http.listen")), settings.address("http.listen"));
    }

    /** The same, but before, it answers at {@code warm.listen}, for {@code warmUp}. */
    Server(Settings settings, HttpServlet servlet, WarmUp warmUp) throws Exception {
        TOMCAT_LOG.setLevel(java.util.logging.Level.WARNING);
        folder = Files.createTempDirectory("auction");
        Connector inner = connector(settings, settings.address("warm.listen"));
        inner.setProperty("maxThreads", String.valueOf(WARM_UP_THREADS));
        inner.setProperty("minSpareThreads", "1");
        start(servlet, inner, settings.address("warm.listen"));
        warmUp.answering();
        tomcat.getService().removeConnector(inner);
        inner.destroy();
        warmUp.silent();
        Connector outer = connector(settings, settings.address("http.listen"));
        tomcat.getService().addConnector(outer);
        mustListen(outer, settings.address("http.listen"));
    }

    private void start(HttpServlet servlet, Connector connector, Settings.Address address) throws Exception {
        tomcat.setBaseDir(folder.toString());
        tomcat.setConnector(connector);
        Context context = tomcat.addContext("/auction", folder.toString());
        Wrapper wrapper = Tomcat.addServlet(context, "auction", servlet);
        wrapper.setAsyncSupported(true);
        wrapper.setLoadOnStartup(1);
        // Uploads stay in memory: what a disk would add is the image store's to show.
        wrapper.setMultipartConfigElement(
                new MultipartConfigElement(folder.toString(), UPLOAD_MAX, UPLOAD_MAX, (int) UPLOAD_MAX));
        wrapper.addMapping("/*");
        tomcat.start();
        mustListen(connector, address);
    }

    private static void mustListen(Connector connector, Settings.Address address) throws IOException {
        if (connector.getLocalPort() <= 0) {
            throw new IOException("cannot listen at " + address);
        }
    }

    /** Where it listens now. */
    public int port() {
        return tomcat.getService().findConnectors()[0].getLocalPort();
    }

    private static Connector connector(Settings settings, Settings.Address address) {
        Connector connector = new Connector("org.apache.coyote.http11.Http11NioProtocol");
        connector.setPort(address.port());
        connector.setProperty("address", address.host());
        connector.setProperty("maxThreads", settings.text("http.threads"));
        // As many from the beginning on: no thread is started in the middle of a measurement.
        connector.setProperty("minSpareThreads", settings.text("http.threads"));
        connector.setProperty("maxConnections", settings.text("http.connections"));
        connector.setProperty("acceptCount", settings.text("http.backlog"));
        connector.setProperty("maxKeepAliveRequests", "-1");
        connector.setProperty("keepAliveTimeout", settings.text("http.keepalive"));
        connector.setProperty("connectionTimeout", settings.text("http.keepalive"));
        connector.setProperty("maxSwallowSize", String.valueOf(UPLOAD_MAX));
        connector.setProperty("maxPostSize", String.valueOf(UPLOAD_MAX));
        return connector;
    }

    @Override
    public void close() {
        try {
            tomcat.stop();
            tomcat.destroy();
            ExpandWar.delete(folder.toFile(), false);
        } catch (LifecycleException late) {
            // The process ends anyway.
        }
    }
}
