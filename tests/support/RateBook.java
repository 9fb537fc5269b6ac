import java.io.IOException;
import java.net.URI;
import org.apache.spark.sql.api.java.UDF1;

/** Exchange rates as functions of SQL ask a service for them: over one connection, or over one of each thread. */
public final class RateBook {
  private RateBook() {}

  /** All threads share a connection. */
  public static final class Shared implements UDF1<Long, Double> {
    private static final Object connection = new Object();

    @Override
    public Double call(Long day) throws IOException {
      synchronized (connection) {
        return ask(day);
      }
    }
  }

  /** Each thread has its own. */
  public static final class OfThread implements UDF1<Long, Double> {
    @Override
    public Double call(Long day) throws IOException {
      return ask(day);
    }
  }

  private static double ask(long day) throws IOException {
    try (var answer = URI.create(System.getProperty("rates.url") + "/rate?day=" + day).toURL().openStream()) {
      return Double.parseDouble(new String(answer.readAllBytes()).strip());
    }
  }
}
