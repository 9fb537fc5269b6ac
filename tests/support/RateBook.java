import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import org.apache.spark.sql.api.java.UDF1;

/** Functions of SQL that ask a service for exchange rates. */
public final class RateBook {
  private RateBook() {}

  /** Over a connection that all threads share. */
  public static final class Shared implements UDF1<Long, Double> {
    private static final Object connection = new Object();

    @Override
    public Double call(Long day) throws IOException {
      synchronized (connection) {
        return ask(day);
      }
    }
  }

  /** Over a connection of each call. */
  public static final class OfThread implements UDF1<Long, Double> {
    @Override
    public Double call(Long day) throws IOException {
      return ask(day);
    }
  }

  /** Once for all days. */
  public static final class Whole implements UDF1<Long, Double> {
    private static final class Rates {
      private static final double same = asked();

      private static double asked() {
        try {
          return ask(0);
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
      }
    }

    @Override
    public Double call(Long day) {
      return Rates.same;
    }
  }

  private static double ask(long day) throws IOException {
    String asked = System.getProperty("rates.url") + day;
    try (var answer = URI.create(asked).toURL().openStream()) {
      return Double.parseDouble(new String(answer.readAllBytes()).strip());
    }
  }
}
