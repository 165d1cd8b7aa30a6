"""Lakes on Google Cloud Storage and on Azure Blob Storage, by way of obstore."""
