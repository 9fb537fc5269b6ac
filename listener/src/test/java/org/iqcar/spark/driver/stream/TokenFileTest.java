package org.iqcar.spark.driver.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TokenFileTest {
  private static final String HOME = "user.home";

  @TempDir
  Path folder;
  private final String home = System.getProperty(HOME);

  @BeforeEach
  void moveHome() {
    System.setProperty(HOME, folder.toString());
  }

  @AfterEach
  void moveBack() {
    System.setProperty(HOME, home);
  }

  private List<Path> files() throws IOException {
    try (Stream<Path> files = Files.list(folder.resolve(".iqcar"))) {
      return files.sorted().collect(Collectors.toList());
    }
  }

  private static String text(Path file) throws IOException {
    return new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
  }

  @Test
  void eachAddressHasAFileOfItsOwnThatOnlyTheUserCanRead() throws IOException {
    TokenFile one = TokenFile.make(InetAddress.getByName("127.0.0.1"), 18490);
    TokenFile other = TokenFile.make(InetAddress.getByName("127.0.0.2"), 18490);
    assertTrue(files().get(0).toString().endsWith("-7f000001-18490.token"));
    assertEquals(one.token, text(files().get(0)));
    assertEquals(other.token, text(files().get(1)));
    assertEquals("rw-------",
        PosixFilePermissions.toString(Files.getPosixFilePermissions(files().get(0))));
    one.close();
    assertEquals(1, files().size());
    assertEquals(other.token, text(files().get(0)));
  }

  @Test
  void aDriverRemovesOnlyItsOwnToken() throws IOException {
    InetAddress address = InetAddress.getByName("::1");
    TokenFile old = TokenFile.make(address, 1);
    TokenFile next = TokenFile.make(address, 1);
    assertNotEquals(old.token, next.token);
    old.close();
    assertEquals(next.token, text(files().get(0)));
    next.close();
    next.close();
    assertTrue(files().isEmpty());
  }

  @Test
  void aTokenInAFileIsTakenWhereNobodyElseCanReadIt() throws IOException {
    Path file = folder.resolve("token");
    Files.write(file, "of-sixteen-letters\n".getBytes(StandardCharsets.UTF_8));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
    String setting = "file:" + file;
    IOException refused =
        assertThrows(IOException.class, () -> TokenFile.given(setting, 100));
    assertFalse(refused.getMessage().contains("letters"));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    assertEquals("of-sixteen-letters", TokenFile.given(setting, 100));
    assertThrows(IOException.class, () -> TokenFile.given(setting, 10));
    assertThrows(IOException.class, () -> TokenFile.given("file:" + folder, 100));
    Files.write(file, new byte[0]);
    assertThrows(IOException.class, () -> TokenFile.given(setting, 100));
    assertEquals("plain", TokenFile.given("plain", 100));
  }

  /** Prints the token that the environment gives. */
  public static void main(String[] none) throws IOException {
    System.out.print(TokenFile.given(null, 100));
  }

  @Test
  void theEnvironmentGivesATokenWhereTheSettingsDoNot() throws Exception {
    for (String value : new String[] {"of-the-driver", "", "file:/etc/passwd"}) {
      ProcessBuilder asked = new ProcessBuilder(System.getProperty("java.home") + "/bin/java",
          "-cp", System.getProperty("java.class.path"), TokenFileTest.class.getName());
      asked.environment().put("IQCAR_LIVE_TOKEN", value);
      Process answers = asked.start();
      byte[] said = new byte[100];
      int length = Math.max(0, answers.getInputStream().read(said));
      answers.waitFor();
      assertEquals(value.isEmpty() ? "null" : value.startsWith("file:") ? "" : value,
          new String(said, 0, length, StandardCharsets.UTF_8));
    }
  }
}
