"""A broker with a second port for user "relay", who may do what no ACL takes from him.

Admin calls and the tests' consumers use the first port, where everybody may do everything.
"""

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p

from support import cleanup, kafka_admin
from support.kafka_broker import KafkaBroker

USER = "relay"
PASSWORD = "right"

_TOPIC, _LITERAL, _WRITE, _DENY = 2, 3, 4, 2
_CREATE_ACLS, _DELETE_ACLS = 9, 11


class GuardedKafka(KafkaBroker):
    """client() is the kafka section of a relay that logs in as that user."""

    def client(self):
        return {"bootstrap_servers": self.guarded, "properties": {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": USER, "sasl.password": PASSWORD}}

    def forbid(self, topic):
        """Take the right to write to the topic away."""
        self._acl(topic, "Create", _CREATE_ACLS, "AclBinding_new", "CreateAcls_result_acls",
                  "acl_result_error")

    def allow(self, topic):
        """Give it back."""
        self._acl(topic, "Delete", _DELETE_ACLS, "AclBindingFilter_new",
                  "DeleteAcls_result_responses", "DeleteAcls_result_response_error")

    def _write_files(self, auto_create, log_append_time, message_max_bytes, extra):
        self.guarded = f"{self.host}:{cleanup.free_port()}"
        listeners = f"PLAINTEXT://{self.bootstrap_servers},SASL_PLAINTEXT://{self.guarded}"
        listeners += f",CONTROLLER://{self.host}:{self._controller_port}"
        super()._write_files(auto_create, log_append_time, message_max_bytes, {
            "listeners": listeners, "advertised.listeners": listeners,
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config":
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f"user_{USER}=\"{PASSWORD}\";",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS", "allow.everyone.if.no.acl.found": "true",
            **extra})

    def _acl(self, topic, verb, operation, maker, listing, error_of):
        """One librdkafka call: milliseconds, where Kafka's own tool starts a JVM."""
        lib, handle = kafka_admin._lib or kafka_admin._load(), self.admin._handle
        for name in (maker, "AdminOptions_new", "queue_new", "queue_poll", error_of,
                     f"event_{verb}Acls_result"):
            getattr(lib, "rd_kafka_" + name).restype = c_void_p
        getattr(lib, "rd_kafka_" + listing).restype = ctypes.POINTER(c_void_p)
        lib.rd_kafka_error_string.restype = c_char_p
        text = ctypes.create_string_buffer(512)
        rule = c_void_p(getattr(lib, "rd_kafka_" + maker)(
            c_int(_TOPIC), topic.encode(), c_int(_LITERAL), f"User:{USER}".encode(), b"*",
            c_int(_WRITE), c_int(_DENY), text, c_size_t(len(text))))
        options = c_void_p(lib.rd_kafka_AdminOptions_new(handle, c_int(operation)))
        queue = c_void_p(lib.rd_kafka_queue_new(handle))
        getattr(lib, f"rd_kafka_{verb}Acls")(handle, (c_void_p * 1)(rule.value), c_size_t(1),
                                             options, queue)
        event = c_void_p(lib.rd_kafka_queue_poll(queue, c_int(15_000)))
        try:
            if not event:
                raise kafka_admin.KafkaError(-185, f"{verb}Acls: no answer")
            kafka_admin.KafkaAdmin._check(lib.rd_kafka_event_error(event))
            result = c_void_p(getattr(lib, f"rd_kafka_event_{verb}Acls_result")(event))
            count = c_size_t()
            items = getattr(lib, "rd_kafka_" + listing)(result, byref(count))
            for index in range(count.value):
                error = getattr(lib, "rd_kafka_" + error_of)(c_void_p(items[index]))
                if error:
                    raise kafka_admin.KafkaError(
                        -1, lib.rd_kafka_error_string(c_void_p(error)).decode())
        finally:
            if event:
                lib.rd_kafka_event_destroy(event)
            lib.rd_kafka_AclBinding_destroy(rule)
            lib.rd_kafka_queue_destroy(queue)
            lib.rd_kafka_AdminOptions_destroy(options)
