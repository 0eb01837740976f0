# shellcheck shell=bash
# A real Kafka broker from the package registry: one process, broker and controller. Sourced by services.sh.

kafka_dir=$local_dir/kafka
kafka_libs=$cache/kafka-4.2.1
kafka_java=${JAVA_HOME:+$JAVA_HOME/bin/}java

# The main version of java, 0 if there is none.
java_version() {
  local version
  version=$("$kafka_java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || true
  echo "${version:-0}"
}

require_java_17() {
  local version
  version=$(java_version)
  [ "$version" -ge 17 ] ||
    die "java 17 or newer is needed (runs Kafka); found: $version (0 = none). \`make doctor\` names the command that installs it"
}

fetch_kafka() {
  [ ! -d "$kafka_libs" ] || return 0
  require_command mvn "downloads Kafka"
  new_part
  say "downloading Kafka 4.2.1 (54 MB), log: $logs/kafka-download.log"
  within 900 mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$part" \
    -DincludeScope=runtime </dev/null >"$logs/kafka-download.log" 2>&1 ||
    die "Kafka could not be downloaded; log: $logs/kafka-download.log"
  [ -f "$part/kafka_2.13-4.2.1.jar" ] || die "the download has no Kafka broker in it; log: $logs/kafka-download.log"
  mv "$part" "$kafka_libs"
}

write_kafka_properties() {
  cat >"$kafka_dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$kafka_port,CONTROLLER://127.0.0.1:$1
log.dirs=$kafka_dir/data
auto.create.topics.enable=false
delete.topic.enable=true
num.partitions=1
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=8388608
PROPERTIES
}

start_kafka() {
  local controller_port
  kafka_port=$(free_port)
  controller_port=$(free_port)
  mkdir -p "$kafka_dir"
  write_kafka_properties "$controller_port"
  if [ ! -f "$kafka_dir/data/meta.properties" ]; then
    "$kafka_java" -Xmx128m -cp "$kafka_libs/*" kafka.tools.StorageTool format -c "$kafka_dir/server.properties" \
      -t "$(python3 -c 'import base64, uuid; print(base64.b64encode(uuid.uuid4().bytes, b"AB").decode().rstrip("="))')" \
      >>"$logs/kafka.log" 2>&1 || die "Kafka's storage could not be formatted; log: $logs/kafka.log"
  fi
  # shellcheck disable=SC2086 # KAFKA_HEAP may hold several options
  launch kafka "$kafka_dir/server.properties" "$kafka_java" ${KAFKA_HEAP:--Xmx1g} -cp "$kafka_libs/*" \
    -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
    kafka.Kafka "$kafka_dir/server.properties"
}

# Ready = it answers a metadata request with itself as a broker; an open port comes seconds earlier.
ready_kafka() { python3 "$here/kafka_metadata.py" "127.0.0.1:$kafka_port"; }

up_kafka() {
  require_linux_x86_64
  require_java_17
  require_command python3 "asks Kafka whether it is ready"
  fetch_kafka
  start_on_free_ports kafka 120
  say "Kafka 4.2.1 answers metadata on 127.0.0.1:$kafka_port (pid $(own_pid kafka))"
  kafka_brokers=127.0.0.1:$kafka_port
}
