# Singerlake with DuckDB, Spark and Java, for a user without rights. Build: docker build -t singerlake .
# A tap in it: FROM singerlake, then RUN pip install tap-shop (or an environment of its own).
FROM python:3.12-slim AS build
RUN python -m venv /opt/singerlake
ENV PATH=/opt/singerlake/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY pyproject.toml README.md LICENSE /src/
COPY constraints/dev.txt /src/constraints/
COPY singerlake /src/singerlake
COPY singerlake_cli /src/singerlake_cli
COPY tap_singerlake /src/tap_singerlake
COPY target_singerlake /src/target_singerlake
COPY pyspark_singerlake /src/pyspark_singerlake
RUN pip install -c /src/constraints/dev.txt '/src[sql,spark,java,gcs,azure]'

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 lake
COPY --from=build /opt/singerlake /opt/singerlake
# Spark finds the data source by this Python, and runs its workers in it.
ENV PATH=/opt/singerlake/bin:$PATH PYSPARK_PYTHON=/opt/singerlake/bin/python
USER 10001
WORKDIR /home/lake
ENTRYPOINT ["singerlake"]
