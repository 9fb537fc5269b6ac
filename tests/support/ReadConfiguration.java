import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Prints what Hadoop reads from each file: its name, then names and values in hexadecimal. */
public final class ReadConfiguration {
  public static void main(String[] files) {
    for (String file : files) {
      Configuration read = new Configuration(false);
      read.addResource(new Path(file));
      StringBuilder line = new StringBuilder(file);
      for (Map.Entry<String, String> each : read) {
        line.append(' ').append(hex(each.getKey())).append('=').append(hex(each.getValue()));
      }
      System.out.println(line);
    }
  }

  private static String hex(String text) {
    return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
  }
}
