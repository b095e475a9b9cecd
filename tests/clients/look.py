"""What librdkafka makes of a twinlog node: BOOTSTRAP TOPIC -> one JSON document; each step {"ok": ...} or {"error": "..."}.

Called by tests/it/librdkafka.rs. "warnings" has every line that the library logs at WARNING or worse during the admin part.
"""

import json
import logging
import sys
import time

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

LIMIT_S = 15


class Kept(logging.Handler):
    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelno, record.getMessage()))


def node(broker):
    return {"id": broker.id, "host": broker.host, "port": broker.port}


def written(kind, bootstrap, topic, logger):
    """What a producer of one kind is told about one record, and how many it still tries to write after LIMIT_S."""
    told = []

    def tell(e):
        told.append(f"{e.name()}: {e.str()}")

    config = {"bootstrap.servers": bootstrap, "enable.idempotence": kind != "plain"}
    if kind == "transactional":
        config["transactional.id"] = "t"
    producer = Producer(config, logger=logger)
    begun = time.monotonic()
    try:
        if kind == "transactional":
            producer.init_transactions(LIMIT_S)
        # A report that comes along with the end of a producer finds the binding in the midst of raising that; the others have their own.
        reported = {} if kind == "idempotent" else {"on_delivery": lambda e, _m: tell(e) if e else told.append("taken")}
        producer.produce(topic, b"x", partition=0, **reported)
    except KafkaException as e:
        tell(e.args[0])
    # A producer that stops for good raises that here, and has nothing left then.
    while len(producer) and time.monotonic() - begun < LIMIT_S:
        try:
            producer.flush(1)
        except KafkaException as e:
            tell(e.args[0])
    outcome = {"told": told, "left": len(producer), "ms": round((time.monotonic() - begun) * 1000)}
    producer.purge()
    return outcome


def main(bootstrap, topic):
    kept = Kept()
    logger = logging.getLogger("librdkafka")
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    errors, out = [], {}
    config = {"bootstrap.servers": bootstrap, "debug": "broker,protocol", "error_cb": lambda e: errors.append(str(e))}
    admin = AdminClient(config, logger=logger)

    def step(name, work):
        try:
            out[name] = {"ok": work()}
        except KafkaException as e:
            out[name] = {"error": f"{e.args[0].name()}: {e.args[0].str()}"}

    def metadata():
        seen = admin.list_topics(timeout=LIMIT_S)
        topics = {name: len(t.partitions) for name, t in seen.topics.items()}
        brokers = [node(b) for b in seen.brokers.values()]
        return {"cluster": seen.cluster_id, "controller": seen.controller_id, "brokers": brokers, "topics": topics}

    def cluster():
        seen = admin.describe_cluster(include_authorized_operations=True, request_timeout=LIMIT_S).result()
        operations = sorted(o.name for o in seen.authorized_operations)
        return {"id": seen.cluster_id, "controller": seen.controller.id, "operations": operations}

    def configs(kind, name):
        futures = admin.describe_configs([ConfigResource(kind, name)], request_timeout=LIMIT_S)
        return {k: v.value for f in futures.values() for k, v in f.result().items()}

    def offset(spec):
        futures = admin.list_offsets({TopicPartition(topic, 0): spec}, request_timeout=LIMIT_S)
        return [f.result().offset for f in futures.values()][0]

    step("metadata", metadata)
    step("cluster", cluster)
    step("topic configs", lambda: configs(ConfigResource.Type.TOPIC, topic))
    step("node configs", lambda: configs(ConfigResource.Type.BROKER, "1"))
    step("earliest", lambda: offset(OffsetSpec.earliest()))
    step("latest", lambda: offset(OffsetSpec.latest()))
    step("by timestamp", lambda: offset(OffsetSpec.for_timestamp(1)))
    # Lines are handed out by polling only, and late ones count too.
    admin.poll(2)
    out["lines"] = len(kept.lines)
    out["warnings"] = [line for level, line in kept.lines if level >= logging.WARNING] + errors

    for kind in ("plain", "idempotent", "transactional"):
        out[kind] = written(kind, bootstrap, topic, logger)
    print(json.dumps(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
