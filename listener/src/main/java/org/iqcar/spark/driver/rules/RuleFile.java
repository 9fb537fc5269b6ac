package org.iqcar.spark.driver.rules;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.iqcar.spark.safety.OwnFile;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.text.Sha256;

/** The file of rules, at a local path or a URL of any file system that Hadoop supports. */
class RuleFile {
  private static final Pattern URL = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]+:/.*");
  /** A remote file system takes seconds; one that does not answer must not block the job. */
  static final int MOST_SECONDS = 30;
  /** 8 MB; a file of a thousand assignments takes some 200 KB. */
  private static final int MOST_BYTES = 8 << 20;

  private final String path;
  private final Object hadoop;
  private final Set<String> otherPools;

  /**
   * @param hadoop Spark's Hadoop configuration
   * @param otherPools names of pools that exist without the file
   */
  RuleFile(String path, Object hadoop, Set<String> otherPools) {
    this.path = path;
    this.hadoop = hadoop;
    this.otherPools = otherPools;
  }

  /** Parses a content; throws {@link RulesRefused} if it is not valid. */
  PoolRules parse(byte[] content) {
    return PoolRules.parse(path, content, otherPools);
  }

  /**
   * Reads the whole file.
   *
   * @throws IOException if it cannot be read within {@link #MOST_SECONDS} s or is larger than 8 MB
   */
  byte[] read() throws IOException {
    return within(MOST_SECONDS, () -> {
      if (stamp() == null) {
        throw new NoSuchFileException(path, null, "No such file or directory");
      }
      return readNow();
    });
  }

  /**
   * What changes when the file does: a local one's content, as its hash, else time and size; null
   * without a file, empty where the file system tells no time.
   *
   * @throws IOException also if it is local and somebody else's, or anybody can write it
   */
  String stamp() throws IOException {
    File local = local();
    try {
      if (local == null) {
        Object status = byHadoop("getFileStatus");
        // The object's own class may be hidden, and then its methods cannot be called.
        Class<?> type = Class.forName(
            "org.apache.hadoop.fs.FileStatus", true, status.getClass().getClassLoader());
        long time = (Long) type.getMethod("getModificationTime").invoke(status);
        return time <= 0 ? "" : time + " " + type.getMethod("getLen").invoke(status);
      }
      // A team shares a file by its group, and many systems make new files writable by it.
      OwnFile.check(local.toPath(), OwnFile.BY_ANYBODY);
    } catch (NoSuchFileException | FileNotFoundException gone) {
      return null;
    } catch (InvalidPathException | ReflectiveOperationException e) {
      throw new IOException(e.toString(), e);
    }
    return Sha256.of(readNow());
  }

  /** Runs an action in a thread of its own, which is abandoned if it takes longer. */
  static byte[] within(int seconds, Callable<byte[]> action) throws IOException {
    FutureTask<byte[]> reading = new FutureTask<>(action);
    Thread thread = Safely.thread("iqcar-rules", reading);
    thread.start();
    try {
      return reading.get(seconds, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      thread.interrupt();
      throw new IOException("no answer within " + seconds + " s", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException();
    } catch (ExecutionException e) {
      throw new IOException(e.getCause().getMessage(), e.getCause());
    }
  }

  /** Reads the whole file in this thread; as {@link #read}, without a limit of time. */
  byte[] readNow() throws IOException {
    File local = local();
    try (InputStream in = local != null ? openLocal(local) : (InputStream) byHadoop("open")) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      byte[] buffer = new byte[65_536];
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        out.write(buffer, 0, n);
        if (out.size() > MOST_BYTES) {
          throw new IOException("larger than " + MOST_BYTES + " bytes");
        }
      }
      return out.toByteArray();
    }
  }

  /** The local file that the path or URL names; null if it names none. */
  private File local() throws IOException {
    if (!URL.matcher(path).matches()) {
      return new File(path);
    }
    if (path.startsWith("file:")) {
      try {
        return Paths.get(URI.create(path)).toFile();
      } catch (IllegalArgumentException e) {
        throw new IOException("no file URL: " + e.getMessage(), e);
      }
    }
    return null;
  }

  private static InputStream openLocal(File file) throws IOException {
    if (file.exists() && !file.isFile()) {
      // Opening a pipe would block until another process writes to it.
      throw new IOException(file + " is no regular file");
    }
    return new FileInputStream(file);
  }

  /** Calls a file system of Hadoop by reflection: the plugin is built without Hadoop's jars. */
  private Object byHadoop(String method) throws IOException {
    try {
      ClassLoader loader = hadoop.getClass().getClassLoader();
      Class<?> type = Class.forName("org.apache.hadoop.fs.Path", true, loader);
      Class<?> conf = Class.forName("org.apache.hadoop.conf.Configuration", true, loader);
      Object file = type.getConstructor(String.class).newInstance(path);
      Object system = type.getMethod("getFileSystem", conf).invoke(file, hadoop);
      return Class.forName("org.apache.hadoop.fs.FileSystem", true, loader)
          .getMethod(method, type).invoke(system, file);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      if (cause instanceof InterruptedIOException) {
        throw (InterruptedIOException) cause;
      }
      if (cause instanceof FileNotFoundException) {
        throw (FileNotFoundException) cause;
      }
      throw new IOException(String.valueOf(cause.getMessage()), cause);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e.toString(), e);
    }
  }
}
