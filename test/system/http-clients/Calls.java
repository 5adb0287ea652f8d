// Run by http-clients.test.ts: makes the same calls with java.net.http and prints what each gave.
import java.io.ByteArrayOutputStream;
import java.net.Authenticator;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.GZIPOutputStream;

public class Calls {
  static final String BASE = System.getenv("HOTEL_API_URL");
  static final String KEY = System.getenv("HOTEL_API_KEY");
  // A client with an authenticator throws at a 401 without WWW-Authenticate.
  static final HttpClient CLIENT = HttpClient.newBuilder().authenticator(new Authenticator() {}).build();

  static HttpResponse<String> send(HttpRequest.Builder request, String... headers) throws Exception {
    if (headers.length > 0) request.headers(headers);
    return CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
  }

  static HttpRequest.Builder to(String path) {
    return HttpRequest.newBuilder(URI.create(BASE).resolve(path)).header("x-api-key", KEY);
  }

  static HttpResponse<String> post(String path, byte[] body, String... headers) throws Exception {
    return send(to(path).POST(HttpRequest.BodyPublishers.ofByteArray(body)), headers);
  }

  static HttpResponse<String> post(String path, String body) throws Exception {
    return post(path, body.getBytes(StandardCharsets.UTF_8), "content-type", "application/json");
  }

  /** All values of a field; Java has no JSON of its own. */
  static List<String> all(String pattern, String text) {
    return Pattern.compile(pattern).matcher(text).results().map((MatchResult each) -> each.group(1))
        .collect(Collectors.toCollection(ArrayList::new));
  }

  static String header(HttpResponse<?> answer, String name) {
    return answer.headers().firstValue(name).orElse("");
  }

  static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  static String array(Object... values) {
    return List.of(values).stream()
        .map(value -> value instanceof String ? "\"" + value + "\"" : value.toString())
        .collect(Collectors.joining(",", "[", "]"));
  }

  static final String HOTEL_ID = "\\{\"id\":\"([^\"]*)\",\"name\"";
  static final String CHANNEL_ID = "\"channel_id\":\"([^\"]*)\",\"registry_id\":";

  public static void main(String[] arguments) throws Exception {
    var listed = new StringBuilder();
    for (var path = "/hotels?limit=100"; path != null; ) {
      var page = send(to(path));
      listed.append(page.body());
      var next = all("<([^>]*)>; rel=\"next\"", header(page, "link"));
      // URI.resolve drops the path before a query
      path = next.isEmpty() ? null : path.split("\\?")[0] + next.get(0);
    }
    var ids = all(HOTEL_ID, listed.toString());

    var path = "/hotels/" + encoded(ids.get(0));
    var single = send(to(path));
    var head = send(to(path).method("HEAD", HttpRequest.BodyPublishers.noBody()));
    var unchanged = send(to(path), "if-none-match", header(single, "etag"));
    var missing = send(to("/hotels/missing"));
    var unauthorized = send(HttpRequest.newBuilder(URI.create(BASE).resolve(path)), "x-api-key", "wrong");

    var channelIds = all(CHANNEL_ID, listed.toString()).subList(0, 1000);
    var wanted = channelIds.stream().map(id -> "\"" + id + "\"").collect(Collectors.joining(","));
    var batch = post("/hotels/channel/batch", "{\"channel_ids\":[" + wanted + "]}");
    var found = all(CHANNEL_ID, batch.body());
    var wrong = post("/hotels/channel/batch", "{\"channel_ids\":[\"a\",1]}");
    var registryId = all("\"registry_id\":(\\d+)", listed.toString()).get(0);
    var large = "{\"registry_ids\":[\"9007199254740993\",\"" + registryId + "\"]}";
    var registry = post("/hotels/registry/batch", large);
    var bytes = new ByteArrayOutputStream();
    try (var gzip = new GZIPOutputStream(bytes)) {
      gzip.write("{\"channel_ids\":[]}".getBytes(StandardCharsets.UTF_8));
    }
    var packed = post("/hotels/channel/batch", bytes.toByteArray(), "content-encoding", "gzip");

    var copied = new HashSet<String>();
    var after = "";
    for (var more = true; more; ) {
      var page = send(to("/changes?limit=1000" + after)).body();
      copied.addAll(all(HOTEL_ID, page));
      after = "&after=" + encoded(all("\"next\":\"([^\"]*)\",\"more\"", page).get(0));
      more = page.endsWith("\"more\":true}");
    }

    System.out.println("{\"listed\":" + ids.size()
        + ",\"single\":" + array(single.statusCode(), all(HOTEL_ID, single.body()).get(0))
        + ",\"head\":" + array(head.statusCode(), Integer.parseInt(header(head, "content-length")) > 0, head.body().length())
        + ",\"unchanged\":" + array(unchanged.statusCode(), unchanged.body().length())
        + ",\"missing\":" + array(missing.statusCode(), header(missing, "x-error-code"), all("\"error\":\"(.*)\"", missing.body()).get(0))
        + ",\"unauthorized\":" + array(unauthorized.statusCode(), header(unauthorized, "x-error-code"), header(unauthorized, "www-authenticate"))
        + ",\"batch\":" + array(batch.statusCode(), found.size(), found.equals(channelIds))
        + ",\"wrongElement\":" + array(wrong.statusCode(), header(wrong, "x-error-code"), header(wrong, "x-error-position"))
        + ",\"largeRegistryId\":" + array(registry.statusCode(), all(HOTEL_ID, registry.body()).size())
        + ",\"packedBody\":" + array(packed.statusCode(), header(packed, "x-error-code"), header(packed, "accept-encoding"))
        + ",\"copied\":" + copied.size() + "}");
  }
}
