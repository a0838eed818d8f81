"""Topics and offsets of a Kafka cluster through librdkafka's admin calls.

kcat brings librdkafka along, so this needs no package more, and a call takes milliseconds where
Kafka's own command line tools start a JVM each time. Only for tests: no record passes through here.
"""

import ctypes
import time
from ctypes import byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

from support.cleanup import wait_until

_ERR_SIZE = 512


class _MetadataBroker(ctypes.Structure):
    _fields_ = [("id", c_int32), ("host", c_char_p), ("port", c_int)]


class _MetadataPartition(ctypes.Structure):
    _fields_ = [("id", c_int32), ("err", c_int), ("leader", c_int32), ("replica_cnt", c_int),
                ("replicas", c_void_p), ("isr_cnt", c_int), ("isrs", c_void_p)]


class _MetadataTopic(ctypes.Structure):
    _fields_ = [("topic", c_char_p), ("partition_cnt", c_int),
                ("partitions", ctypes.POINTER(_MetadataPartition)), ("err", c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("broker_cnt", c_int), ("brokers", ctypes.POINTER(_MetadataBroker)),
                ("topic_cnt", c_int), ("topics", ctypes.POINTER(_MetadataTopic)),
                ("orig_broker_id", c_int32), ("orig_broker_name", c_char_p)]


def _load():
    lib = ctypes.CDLL("librdkafka.so.1")
    pointers = """rd_kafka_conf_new rd_kafka_new rd_kafka_queue_new rd_kafka_NewTopic_new
        rd_kafka_AdminOptions_new rd_kafka_queue_poll rd_kafka_event_CreateTopics_result
        rd_kafka_event_DeleteTopics_result rd_kafka_event_CreatePartitions_result
        rd_kafka_event_AlterConfigs_result rd_kafka_DeleteTopic_new rd_kafka_NewPartitions_new
        rd_kafka_ConfigResource_new"""
    for name in pointers.split():
        getattr(lib, name).restype = c_void_p
    for name in ("CreateTopics_result_topics", "DeleteTopics_result_topics",
                 "CreatePartitions_result_topics", "AlterConfigs_result_resources"):
        getattr(lib, "rd_kafka_" + name).restype = ctypes.POINTER(c_void_p)
    for name in ("rd_kafka_err2str", "rd_kafka_topic_result_error_string",
                 "rd_kafka_topic_result_name", "rd_kafka_event_error_string",
                 "rd_kafka_ConfigResource_error_string"):
        getattr(lib, name).restype = c_char_p
    return lib


_lib = None


class KafkaError(RuntimeError):
    """A refused admin call; code is librdkafka's."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class KafkaAdmin:
    """Owns one librdkafka handle. Thread: any one at a time."""

    TOPIC_EXISTS = 36
    UNKNOWN_TOPIC = 3
    # A topic made a moment ago: its partitions have no leader, or the client asks the wrong one.
    _NO_LEADER_YET = (3, 5, 6)

    def __init__(self, bootstrap_servers, timeout_s=15):
        global _lib
        if _lib is None:
            _lib = _load()
        self._timeout_ms = int(timeout_s * 1000)
        error = ctypes.create_string_buffer(_ERR_SIZE)
        conf = c_void_p(_lib.rd_kafka_conf_new())
        settings = {"bootstrap.servers": bootstrap_servers, "log_level": "0",
                    "reconnect.backoff.max.ms": "500", "topic.metadata.propagation.max.ms": "5000"}
        for name, value in settings.items():
            _lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, c_size_t(_ERR_SIZE))
        self._handle = c_void_p(_lib.rd_kafka_new(0, conf, error, c_size_t(_ERR_SIZE)))
        if not self._handle:
            raise KafkaError(-1, error.value.decode())

    def close(self):
        if self._handle:
            _lib.rd_kafka_destroy_flags(self._handle, 0x8)  # Do not wait for anything.
            self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    def create_topics(self, topics, partitions=6, replication_factor=1, config=None,
                      exist_ok=False):
        """Create all named topics in one call."""
        error = ctypes.create_string_buffer(_ERR_SIZE)
        made = []
        for name in topics:
            topic = c_void_p(_lib.rd_kafka_NewTopic_new(
                name.encode(), c_int(partitions), c_int(replication_factor), error,
                c_size_t(_ERR_SIZE)))
            if not topic:
                raise KafkaError(-1, error.value.decode())
            for key, value in (config or {}).items():
                _lib.rd_kafka_NewTopic_set_config(topic, key.encode(), str(value).encode())
            made.append(topic)
        ignore = (self.TOPIC_EXISTS,) if exist_ok else ()
        self._call("CreateTopics", 1, made, "NewTopic", ignore)
        self._wait_topics(topics)

    def delete_topics(self, topics, missing_ok=False):
        made = [c_void_p(_lib.rd_kafka_DeleteTopic_new(name.encode())) for name in topics]
        ignore = (self.UNKNOWN_TOPIC,) if missing_ok else ()
        self._call("DeleteTopics", 2, made, "DeleteTopic", ignore)

    def create_partitions(self, topic, total):
        error = ctypes.create_string_buffer(_ERR_SIZE)
        made = [c_void_p(_lib.rd_kafka_NewPartitions_new(topic.encode(), c_size_t(total), error,
                                                         c_size_t(_ERR_SIZE)))]
        self._call("CreatePartitions", 3, made, "NewPartitions", ())

    def alter_topic(self, topic, config):
        """Replace the topic's overrides by these."""
        resource = c_void_p(_lib.rd_kafka_ConfigResource_new(2, topic.encode()))
        for key, value in config.items():
            _lib.rd_kafka_ConfigResource_set_config(resource, key.encode(), str(value).encode())
        self._call("AlterConfigs", 4, [resource], "ConfigResource", ())

    def topics(self):
        """{topic: number of partitions}, without the internal ones."""
        pointer = ctypes.POINTER(_Metadata)()
        code = _lib.rd_kafka_metadata(self._handle, 1, None, byref(pointer),
                                      c_int(self._timeout_ms))
        self._check(code)
        try:
            metadata = pointer.contents
            return {metadata.topics[i].topic.decode(): metadata.topics[i].partition_cnt
                    for i in range(metadata.topic_cnt)
                    if not metadata.topics[i].topic.startswith(b"__")}
        finally:
            _lib.rd_kafka_metadata_destroy(pointer)

    def offsets(self, topic):
        """{partition: (first offset, end offset)}; {} for a topic that does not exist."""
        result = {}
        for partition in range(self.topics().get(topic, 0)):
            result[partition] = self._watermarks(topic, partition)
        return result

    def count(self, topics):
        """Offsets between first and end over all partitions (with transactions: markers too)."""
        names = [topics] if isinstance(topics, str) else topics
        return sum(high - low for name in names for low, high in self.offsets(name).values())

    def _watermarks(self, topic, partition):
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            low, high = c_int64(), c_int64()
            code = _lib.rd_kafka_query_watermark_offsets(
                self._handle, topic.encode(), c_int32(partition), byref(low), byref(high),
                c_int(self._timeout_ms))
            if code not in self._NO_LEADER_YET or time.monotonic() > deadline:
                self._check(code)
                return low.value, high.value
            time.sleep(0.05)

    def _wait_topics(self, names):
        def complete():
            known = self.topics()
            return all(known.get(name) for name in names)

        wait_until(complete, 10, f"topics {names} in the metadata", 0.02)

    def _call(self, what, operation, objects, kind, ignore):
        options = c_void_p(_lib.rd_kafka_AdminOptions_new(self._handle, operation))
        queue = c_void_p(_lib.rd_kafka_queue_new(self._handle))
        array = (c_void_p * len(objects))(*[item.value for item in objects])
        try:
            getattr(_lib, "rd_kafka_" + what)(self._handle, array, c_size_t(len(objects)), options,
                                              queue)
            event = c_void_p(_lib.rd_kafka_queue_poll(queue, c_int(self._timeout_ms)))
            if not event:
                raise KafkaError(-185, f"{what}: no answer")
            try:
                self._check_event(what, event, ignore)
            finally:
                _lib.rd_kafka_event_destroy(event)
        finally:
            for item in objects:
                getattr(_lib, f"rd_kafka_{kind}_destroy")(item)
            _lib.rd_kafka_queue_destroy(queue)
            _lib.rd_kafka_AdminOptions_destroy(options)

    def _check_event(self, what, event, ignore):
        self._check(_lib.rd_kafka_event_error(event))
        result = c_void_p(getattr(_lib, f"rd_kafka_event_{what}_result")(event))
        count = c_size_t()
        resource = what == "AlterConfigs"
        listing = "resources" if resource else "topics"
        item_kind = "ConfigResource" if resource else "topic_result"
        items = getattr(_lib, f"rd_kafka_{what}_result_{listing}")(result, byref(count))
        for index in range(count.value):
            item = c_void_p(items[index])
            code = getattr(_lib, f"rd_kafka_{item_kind}_error")(item)
            if code and code not in ignore:
                text = getattr(_lib, f"rd_kafka_{item_kind}_error_string")(item)
                raise KafkaError(code, f"{what}: {(text or b'').decode()}")

    @staticmethod
    def _check(code):
        if code:
            raise KafkaError(code, _lib.rd_kafka_err2str(c_int(code)).decode())
