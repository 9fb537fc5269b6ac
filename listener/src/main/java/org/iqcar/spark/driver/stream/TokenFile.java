package org.iqcar.spark.driver.stream;

import java.io.Closeable;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Base64;
import org.iqcar.spark.safety.OwnFile;

/**
 * A token that only the user who runs the driver can read: `iqcar live` of the same user finds it.
 * Its name is made of what tells drivers of one home apart: machine, address and port.
 */
final class TokenFile implements Closeable {
  /** Of the driver, as of its follower: no command line shows it. */
  private static final String VARIABLE = "IQCAR_LIVE_TOKEN";
  private static final String IN_A_FILE = "file:";
  private static final String FOLDER = ".iqcar";
  private static final Path HOST = Paths.get("/proc/sys/kernel/hostname");
  private static final int RANDOM_BYTES = 24;

  final String token;
  private final Path path;

  private TokenFile(String token, Path path) {
    this.token = token;
    this.path = path;
  }

  /**
   * The token that the user gave: by the setting, in the file that it names, or by the environment;
   * null where there is none.
   *
   * @throws IOException if the file cannot be read, or others can read it, too
   */
  static String given(String setting, int mostBytes) throws IOException {
    String token = setting == null ? System.getenv(VARIABLE) : setting;
    if (token == null || !token.startsWith(IN_A_FILE)) {
      return token == null || token.isEmpty() ? null : token;
    }
    Path file = Paths.get(token.substring(IN_A_FILE.length()));
    OwnFile.check(file, OwnFile.BY_OTHERS);
    if (!Files.isRegularFile(file) || Files.size(file) > mostBytes) {
      throw new IOException(file + " is no file of " + mostBytes + " bytes at most");
    }
    token = text(file);
    if (token.isEmpty()) {
      throw new IOException(file + " is empty");
    }
    return token;
  }

  /** Writes a new token for an address, in place of one that a driver left there. */
  static TokenFile make(InetAddress address, int port) throws IOException {
    byte[] random = new byte[RANDOM_BYTES];
    new SecureRandom().nextBytes(random);
    String token = Base64.getUrlEncoder().withoutPadding().encodeToString(random);
    Path folder = Paths.get(System.getProperty("user.home"), FOLDER);
    if (!Files.isDirectory(folder)) {
      Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(
          PosixFilePermissions.fromString("rwx------")));
    }
    Path path = folder.resolve(String.format("live-%s-%x-%d.token",
        host().replaceAll("[^A-Za-z0-9.-]", "_"), new BigInteger(1, address.getAddress()), port));
    Files.deleteIfExists(path);
    Files.createFile(path, PosixFilePermissions.asFileAttribute(
        PosixFilePermissions.fromString("rw-------")));
    Files.write(path, token.getBytes(StandardCharsets.US_ASCII), StandardOpenOption.WRITE);
    return new TokenFile(token, path);
  }

  /** This machine's name, as Python's {@code socket.gethostname} tells it. */
  private static String host() throws IOException {
    return Files.exists(HOST) ? text(HOST) : InetAddress.getLocalHost().getHostName();
  }

  private static String text(Path file) throws IOException {
    return new String(Files.readAllBytes(file), StandardCharsets.UTF_8).trim();
  }

  /** Removes the file, unless another driver has written its own. */
  @Override
  public void close() throws IOException {
    if (Files.exists(path) && text(path).equals(token)) {
      Files.deleteIfExists(path);
    }
  }
}
