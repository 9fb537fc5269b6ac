package org.iqcar.spark.safety;

import java.util.Arrays;
import java.util.function.Consumer;

/** Fails at the places named in the system property iqcar.test.fail (comma separated, or all). */
public final class FaultInjection implements Consumer<String> {
  @Override
  public void accept(String place) {
    String places = System.getProperty("iqcar.test.fail", "");
    if (places.equals("kill-sampler") && place.equals("sampler")) {
      throw new ThreadDeath();
    }
    if (places.equals("all") || Arrays.asList(places.split(",")).contains(place)) {
      throw new LinkageError("injected at " + place);
    }
  }
}
