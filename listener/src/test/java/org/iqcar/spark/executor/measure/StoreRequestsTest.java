package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.iqcar.spark.events.TaskRecord;
import org.junit.jupiter.api.Test;

/** Hadoop's names of what it counts, and a Hadoop that has no such counts. */
class StoreRequestsTest {
  @Test
  void requestsAreToldFromOtherDurations() {
    assertTrue(StoreRequests.isRequest("action_http_get_request.mean"));
    assertTrue(StoreRequests.isRequest("action_http_get_request.failures.mean"));
    assertTrue(StoreRequests.isRequest("object_put_request.mean"));
    assertTrue(StoreRequests.isRequest("multipart_upload_part_put.mean"));
    assertFalse(StoreRequests.isRequest("object_put_request"));
    assertFalse(StoreRequests.isRequest("action_executor_acquired.mean"));
    assertFalse(StoreRequests.isRequest("action_file_opened.mean"));
  }

  @Test
  void streamsThatBrokeAreRetries() {
    assertTrue(StoreRequests.isRetry("stream_read_exceptions"));
    assertTrue(StoreRequests.isRetry("store_io_retry"));
    assertFalse(StoreRequests.isRetry("stream_write_exceptions_completing_upload"));
    assertFalse(StoreRequests.isRetry("stream_read_opened"));
  }

  @Test
  void aTaskWithoutRequestsHasNoFields() {
    TaskRecord record = new TaskRecord();
    new StoreRequests().end(record);
    assertEquals("{\"v\":1}", record.json());
  }
}
