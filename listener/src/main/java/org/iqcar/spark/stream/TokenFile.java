package org.iqcar.spark.stream;

import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Base64;

/**
 * A token that only the user who runs the driver can read: `iqcar live` of the same user finds it.
 */
final class TokenFile implements Closeable {
  private static final String FOLDER = ".iqcar";
  private static final int RANDOM_BYTES = 24;

  final String token;
  private final Path path;

  private TokenFile(String token, Path path) {
    this.token = token;
    this.path = path;
  }

  /** Writes a new token for a port, in place of one that another driver left there. */
  static TokenFile make(int port) throws IOException {
    byte[] random = new byte[RANDOM_BYTES];
    new SecureRandom().nextBytes(random);
    String token = Base64.getUrlEncoder().withoutPadding().encodeToString(random);
    Path folder = Paths.get(System.getProperty("user.home"), FOLDER);
    if (!Files.isDirectory(folder)) {
      Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(
          PosixFilePermissions.fromString("rwx------")));
    }
    Path path = folder.resolve("live-" + port + ".token");
    Files.deleteIfExists(path);
    Files.createFile(path, PosixFilePermissions.asFileAttribute(
        PosixFilePermissions.fromString("rw-------")));
    Files.write(path, token.getBytes(StandardCharsets.US_ASCII), StandardOpenOption.WRITE);
    return new TokenFile(token, path);
  }

  @Override
  public void close() throws IOException {
    Files.deleteIfExists(path);
  }
}
