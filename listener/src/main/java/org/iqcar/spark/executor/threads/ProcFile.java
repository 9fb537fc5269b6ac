package org.iqcar.spark.executor.threads;

import java.io.Closeable;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import org.iqcar.spark.safety.Safely;

/**
 * Reads numbers from one of the kernel's files, which it keeps open: reading again costs 1 us
 * instead of 20 us. One thread reads; another may close it meanwhile: a read of a closed file fails,
 * and never reaches another file that the JVM has opened under the same descriptor.
 */
public final class ProcFile implements Closeable {
  private final RandomAccessFile file;
  private final byte[] bytes;
  private int length;

  public ProcFile(String path, int size) throws IOException {
    file = new RandomAccessFile(path, "r");
    bytes = new byte[size];
  }

  private synchronized void read() throws IOException {
    file.seek(0);
    length = Math.max(0, file.read(bytes));
  }

  /** The state letter of a stat file: R running or runnable, S asleep, D asleep on a disk, ... */
  char state() throws IOException {
    read();
    // The command's name may contain spaces and brackets: the state follows the last bracket.
    for (int i = length - 3; i > 0; i--) {
      if (bytes[i] == ')') {
        return (char) bytes[i + 2];
      }
    }
    throw new IOException("not a stat file");
  }

  /** Reads the file's numbers in order, skipping what stands between them. */
  public void numbers(long[] into) throws IOException {
    read();
    numbersFrom(0, into);
  }

  /** Reads a stat file's numbers after the state letter and returns the letter. */
  public char stateAndNumbers(long[] into) throws IOException {
    char state = state();
    int at = length;
    while (bytes[at - 1] != ')') {
      at--;
    }
    numbersFrom(at, into);
    return state;
  }

  /** Opens a file; null where the kernel hides it. */
  public static ProcFile orNull(String path, int size) {
    try {
      return new ProcFile(path, size);
    } catch (IOException hidden) {
      return null;
    }
  }

  /**
   * Whether this is the syscall file of a thread that sleeps outside of a system call. In state D,
   * the kernel reads a page of memory for it.
   */
  public boolean isOutsideCall() throws IOException {
    read();
    return length >= 3 && bytes[0] == '-' && bytes[1] == '1' && bytes[2] == ' ';
  }

  /** Reads the number that follows a name at the beginning of a line. */
  long number(String name) throws IOException {
    read();
    int at = ("\n" + new String(bytes, 0, length, StandardCharsets.ISO_8859_1))
        .indexOf("\n" + name + " ");
    if (at < 0) {
      throw new IOException("no " + name);
    }
    long[] found = new long[1];
    numbersFrom(at + name.length(), found);
    return found[0];
  }

  private void numbersFrom(int start, long[] into) throws IOException {
    int at = start;
    for (int n = 0; n < into.length; n++) {
      while (at < length && !digit(bytes[at])) {
        at++;
      }
      if (at == length) {
        throw new IOException("expected " + into.length + " numbers, found " + n);
      }
      long number = 0;
      while (at < length && digit(bytes[at])) {
        number = number * 10 + (bytes[at++] - '0');
      }
      into[n] = number;
    }
  }

  private static boolean digit(byte letter) {
    return letter >= '0' && letter <= '9';
  }

  @Override
  public synchronized void close() {
    Safely.run("closing a kernel file", file::close);
  }

  /** Closes files, some of which may be null. */
  public static void closeAll(ProcFile... files) {
    for (ProcFile file : files) {
      if (file != null) {
        file.close();
      }
    }
  }
}
