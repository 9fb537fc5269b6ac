package org.iqcar.spark.text;

import java.math.BigInteger;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/** Hashes that recognise a content: 128 bits never collide by chance. */
public final class Sha256 {
  private static final int BYTES = 16;

  private Sha256() {}

  /** The first half of the SHA-256 of some bytes, in hexadecimal. */
  public static String of(byte[] bytes) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
      return String.format("%032x", new BigInteger(1, Arrays.copyOf(digest, BYTES)));
    } catch (NoSuchAlgorithmException absent) {
      throw new IllegalStateException(absent);
    }
  }
}
