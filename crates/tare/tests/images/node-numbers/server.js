const http = require("http");

const server = http.createServer((request, response) => {
    response.setHeader("Content-Length", 5);
    response.end("hello");
});
server.listen(process.env.PORT);
process.on("SIGTERM", () => process.exit(0));
