"""What a process reports about itself.

logs      log lines, as JSON or for people
metrics   counters and gauges, under the names of controller-runtime
object_metrics  series for each object, bounded
traces    OpenTelemetry traces of passes; otlp sends them
"""
